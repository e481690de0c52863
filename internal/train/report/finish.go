package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/trace"
)

// Times adds the time by phase on all ranks to a result that has steps and samples. read is
// the working time of this rank's readers; waited is the time spent waiting for them outside
// the phases of its recorder.
func (r *Reporter) Times(res *Result, read, waited time.Duration) error {
	seconds := r.Seconds()
	res.Since, res.NewSamples = r.since.Step, res.Samples-r.since.Samples
	if steps := res.Steps - r.since.Step; steps > 0 {
		res.TrainSeconds = seconds
		res.StepSeconds, res.SamplesPerSecond = seconds/float64(steps), float64(res.NewSamples)/seconds
	}
	waited += r.Rec.Totals()[trace.Input] - r.since.Totals[trace.Input]
	shares := []float64{waited.Seconds() / seconds, read.Seconds() / seconds}
	if err := collective.AllReduce(r.Comm, shares, collective.Sum); err != nil {
		return err
	}
	ranks := float64(r.Comm.Size())
	res.InputWaitShare, res.Input.WorkShare = shares[0]/ranks, shares[1]/ranks
	res.SlowRanks, res.LossyLinks = r.slow.report(), r.slow.links.report()
	return nil
}

// Finish writes timeline and result to the run directory, and lists in the result the files
// that could not be written. far lists the ranks that have another run directory than rank 0,
// ascending: rank 0 writes their timelines too.
func (r *Reporter) Finish(res *Result, far []int) error {
	r.log.restore()
	if err := collective.Barrier(r.Comm); err != nil { // all ranks write there
		return err
	}
	trained := res.Steps > r.since.Step
	lost := []int32{0}
	if res.NoTimeline = !r.Rec.Keeps(); !res.NoTimeline {
		wrote := r.writeTrace(trained)
		collected, err := r.collect(far, wrote)
		if err != nil {
			return err
		}
		if !wrote || !collected {
			lost[0] = 1
		}
	}
	if err := collective.AllReduce(r.Comm, lost, collective.Max); err != nil {
		return err
	}
	if lost[0] > 0 {
		res.Lost = append(res.Lost, rundir.FileTraces)
	}
	res.Events = r.events.writes()
	r.events.end()
	if r.Comm.Rank() == 0 && (trained || !Ended(r.dir, res.Steps)) && !r.writeResult(res) {
		res.Lost = append(res.Lost, rundir.FileResult)
	}
	return nil
}

// writeTrace writes this rank's timeline and reports whether there is one. A timeline without
// steps does not replace an existing one.
func (r *Reporter) writeTrace(trained bool) bool {
	if _, err := os.Stat(filepath.Join(r.dir, timeline(r.Comm.Rank()))); err == nil && !trained {
		return true
	}
	err := r.WriteTimeline(0)
	if err != nil {
		r.Warn(fmt.Sprintf("the timeline is not kept: %v", err))
	}
	return err == nil
}

const (
	maxTimeline = 64 << 20
	collectedAt = 8 // timelines that rank 0 holds in memory
)

// collect writes the timelines of the far ranks to the run directory of rank 0 and reports
// whether this rank could do its part. wrote reports whether this rank has written its own
// timeline. If not, rank 0 gets none from it.
func (r *Reporter) collect(far []int, wrote bool) (ok bool, err error) {
	ok = true
	for some := range slices.Chunk(far, collectedAt) {
		var own []byte
		if wrote && slices.Contains(some, r.Comm.Rank()) {
			own, _ = regular.ReadFile(filepath.Join(r.dir, timeline(r.Comm.Rank())), maxTimeline)
		}
		all, err := collective.GatherBytes(r.Comm, own, 0, maxTimeline)
		if err != nil {
			return false, err
		}
		for rank, b := range all {
			if len(b) == 0 {
				continue
			}
			if err := rundir.WriteFile(r.dir, timeline(rank), b); err != nil {
				r.Warn(fmt.Sprintf("the timeline of rank %d is only on its host: %v", rank, err))
				ok = false
			}
		}
	}
	return ok, nil
}

// timeline returns the file name of a rank's timeline.
func timeline(rank int) string { return fmt.Sprintf("trace-%04d.json", rank) }

// WriteTimeline writes the last spans of this rank's timeline, or all if last is 0, to the
// run directory. Call it from the goroutine that trains. It does nothing before Open or if no
// spans are recorded.
func (r *Reporter) WriteTimeline(last int) error {
	if r.slow == nil || !r.Rec.Keeps() {
		return nil
	}
	of := trace.Source{Rank: r.Comm.Rank(), Size: r.Comm.Size(), Last: last}
	if of.Rank < len(r.slow.hosts) {
		of.Host = r.slow.hosts[of.Rank]
	}
	return rundir.WriteFileBy(r.dir, timeline(r.Comm.Rank()), 0o644, func(w io.Writer) error { return r.Rec.WriteChrome(w, of) })
}

// Ended reports whether a run directory has the result of a training that ended with the given
// number of steps. That result has more content than one of a job without steps.
func Ended(runDir string, steps int64) bool {
	b, err := regular.ReadFile(filepath.Join(runDir, rundir.FileResult), rundir.MaxFile)
	var was Result
	return err == nil && json.Unmarshal(b, &was) == nil && was.Steps == steps && !was.Stopped
}

// writeResult writes the result and reports whether that succeeded.
func (r *Reporter) writeResult(res *Result) bool {
	b, err := json.MarshalIndent(res, "", "  ")
	if err == nil {
		err = rundir.WriteFile(r.dir, rundir.FileResult, append(b, '\n'))
	}
	if err != nil {
		r.Warn(fmt.Sprintf("the result is not kept: %v", err))
	}
	return err == nil
}

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/regular"
	"github.com/wdlrun/wdlrun/internal/wdl/save"
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
	waited += r.rec.Totals()[trace.Input] - r.since.Totals[trace.Input]
	shares := []float64{waited.Seconds() / seconds, read.Seconds() / seconds}
	if err := collective.AllReduce(r.comm, shares, collective.Sum); err != nil {
		return err
	}
	ranks := float64(r.comm.Size())
	res.InputWaitShare, res.Input.WorkShare = shares[0]/ranks, shares[1]/ranks
	res.SlowRanks = r.slow.report()
	return nil
}

// Leave writes timeline and result to the run directory, and lists in the result the files
// that could not be written.
func (r *Reporter) Leave(res *Result) error {
	r.log.restore()
	if err := collective.Barrier(r.comm); err != nil { // all ranks write there
		return err
	}
	trained := res.Steps > r.since.Step
	lost := []int32{0}
	if res.NoTimeline = !r.rec.Keeps(); !res.NoTimeline && !r.writeTrace(trained) {
		lost[0] = 1
	}
	if err := collective.AllReduce(r.comm, lost, collective.Max); err != nil {
		return err
	}
	if lost[0] > 0 {
		res.Lost = append(res.Lost, save.FileTraces)
	}
	res.Events = r.events.writes()
	r.events.end(true)
	if r.comm.Rank() == 0 && (trained || !r.kept(res)) && !r.keep(res) {
		res.Lost = append(res.Lost, save.FileResult)
	}
	return nil
}

// writeTrace writes this rank's timeline and reports whether there is one. A timeline without
// steps does not replace an existing one.
func (r *Reporter) writeTrace(trained bool) bool {
	if _, err := os.Stat(filepath.Join(r.dir, r.timeline())); err == nil && !trained {
		return true
	}
	err := r.WriteTimeline(0)
	if err != nil {
		r.warn(fmt.Sprintf("the timeline is not kept: %v", err))
	}
	return err == nil
}

// timeline returns the file name of this rank's timeline.
func (r *Reporter) timeline() string { return fmt.Sprintf("trace-%04d.json", r.comm.Rank()) }

// WriteTimeline writes the last spans of this rank's timeline, or all if last is 0, to the
// run directory. Call it from the goroutine that trains. It does nothing before Open or if no
// spans are recorded.
func (r *Reporter) WriteTimeline(last int) error {
	if r.slow == nil || !r.rec.Keeps() {
		return nil
	}
	var b bytes.Buffer
	of := trace.Source{Rank: r.comm.Rank(), Size: r.comm.Size(), Last: last}
	if of.Rank < len(r.slow.hosts) {
		of.Host = r.slow.hosts[of.Rank]
	}
	err := r.rec.WriteChrome(&b, of)
	if err == nil {
		err = save.WriteFile(r.dir, r.timeline(), b.Bytes())
	}
	return err
}

// kept reports whether the run directory already has the result of the job that took the last
// step. That result has more content than one of a job without steps.
func (r *Reporter) kept(res *Result) bool {
	b, err := regular.ReadFile(filepath.Join(r.dir, save.FileResult), save.MaxFile)
	var was Result
	return err == nil && json.Unmarshal(b, &was) == nil && was.Steps == res.Steps && !was.Stopped
}

// keep writes the result and reports whether that succeeded.
func (r *Reporter) keep(res *Result) bool {
	b, err := json.MarshalIndent(res, "", "  ")
	if err == nil {
		err = save.WriteFile(r.dir, save.FileResult, append(b, '\n'))
	}
	if err != nil {
		r.warn(fmt.Sprintf("the result is not kept: %v", err))
	}
	return err == nil
}

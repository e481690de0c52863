package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/runs/live"
	"github.com/wdlrun/wdlrun/internal/runs/pace"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train/shared"
	"github.com/wdlrun/wdlrun/trace"
)

// Reporter reports the progress of a training on one rank. All ranks of the group make the
// same calls, except Write, AppendDistributions and WarnTierLimit, which only rank 0 calls.
type Reporter struct {
	shared.Rank
	since      Since
	dir        string
	log        *metricsLog // rank 0
	follows    bool        // event files of TensorBoard are written
	events     *events     // rank 0
	slow       *lookout
	board      *live.Board   // dashboard of the job; nil: none
	spent      time.Duration // time in the steps that the board shows
	pace       pace.Pace     // of samples, on the clock of steps
	shown      time.Time     // time at which Due last returned true
	tight      map[int]bool  // tables that WarnTierLimit has warned about
	spreadLost bool          // AppendDistributions has failed
	spreadLeft int64         // least size of distributions.jsonl at which it is thinned again
}

// Since is the state from which a job counts samples, steps and time.
type Since struct {
	Samples int64
	Step    int64
	Totals  [trace.Phases]time.Duration // totals of the recorder, which an earlier job may have used
	live.LeftOut
}

// New returns the Reporter of a rank.
func New(r shared.Rank) *Reporter { return &Reporter{Rank: r} }

// Begin sets the state from which the job counts.
func (r *Reporter) Begin(s Since) { r.since, r.pace = s, pace.Pace{} }

// Show sets the dashboard of rank 0; nil: none.
func (r *Reporter) Show(b *live.Board) { r.board = b }

// Follow sets whether event files of TensorBoard are written with the metrics.
func (r *Reporter) Follow(events bool) { r.follows = events }

// Since returns the state from which the job counts.
func (r *Reporter) Since() Since { return r.since }

// Open starts the reports after a step: it opens metrics.jsonl on rank 0, removes lines of
// later steps, and starts the watch for slow ranks. yaml is the configuration in the run
// directory; hosts are the names of the ranks' hosts.
func (r *Reporter) Open(dir string, yaml []byte, hosts []string, step int64, first Effort) {
	r.dir = dir
	if r.Comm.Rank() == 0 {
		r.log = openMetrics(dir, yaml, step, r.Warn)
		if err := dropLater(filepath.Join(dir, rundir.FileDistributions), step); err != nil {
			r.Warn(fmt.Sprintf("%s keeps lines of steps after %d: %v", rundir.FileDistributions, step, err))
		}
		if r.follows {
			r.events = openEvents(dir, yaml, step, r.Warn)
		}
	}
	r.slow = &lookout{watch: newWatch(r.Comm.Size(), hosts), since: time.Now(), step: step, first: first, was: first, links: losses{hosts: hosts}}
	r.slow.lines = rankLines{opened: r.slow.since, at: r.slow.since, step: step}
}

// Close closes metrics.jsonl and the event files.
func (r *Reporter) Close() {
	r.log.close()
	r.events.close()
}

// Spent returns the time that this rank has spent in training steps of this job.
func (r *Reporter) Spent() (sum time.Duration) {
	totals := r.Rec.Totals()
	for _, p := range [...]trace.Phase{trace.Input, trace.Pull, trace.Compute, trace.Push, trace.Sync, trace.Update} {
		sum += totals[p] - r.since.Totals[p]
	}
	return sum
}

// Seconds returns Spent in seconds, at least 1e-9.
func (r *Reporter) Seconds() float64 { return max(r.Spent().Seconds(), 1e-9) }

// Usual returns the mean duration of a step of this job, up to the given step; 0 before the
// first.
func (r *Reporter) Usual(step int64) time.Duration {
	n := step - r.since.Step
	if n <= 0 {
		return 0
	}
	return time.Duration(r.Seconds() / float64(n) * float64(time.Second))
}

// Speed returns the samples per second in about the last ten seconds of steps, 0 at the first call.
// samples counts from the beginning of the training.
func (r *Reporter) Speed(samples int64) float64 {
	r.pace.See(r.Spent(), samples)
	return r.pace.Rate()
}

const (
	lineEvery = 20                     // steps between two lines of metrics.jsonl
	showPause = 200 * time.Millisecond // least time between two updates of the display
)

// Due reports whether a finished step on some samples is displayed, and whether it gets a line in
// metrics.jsonl.
func (r *Reporter) Due(step, rows int64) (show, line bool) {
	if r.board != nil {
		spent := r.Spent()
		r.board.Step(spent-r.spent, rows)
		r.spent = spent
	}
	line = step%lineEvery == 0 || step == 1
	if !line && time.Since(r.shown) < showPause {
		return false, false
	}
	r.shown = time.Now()
	return true, line
}

// Write appends a line to metrics.jsonl on rank 0.
func (r *Reporter) Write(l Line) {
	l.Time = time.Now().UTC().Format(time.RFC3339Nano)
	line, err := json.Marshal(l)
	if err != nil {
		r.Warn(fmt.Sprintf("the metrics of step %d are not kept: %v", l.Step, err))
	} else {
		r.log.write(line)
		r.events.line(line)
	}
	if l.Metrics != nil {
		r.board.Evaluated(l.Step, l.Metrics, l.Event == "test")
	} else {
		r.board.Trained(l.Step, l.LogLoss, l.Speed, l.Rate)
	}
}

// Days appends to metrics.jsonl, on rank 0, how the model before predicted the last partition of a
// ledger, and writes the whole ledger as events. before may be nil.
func (r *Reporter) Days(l *rundir.Days, before *metrics.Metrics, at Line) {
	at.Event, at.Day, at.Metrics, at.Time = "day", &l.Days[len(l.Days)-1], before, time.Now().UTC().Format(time.RFC3339Nano)
	if before != nil {
		at.LogLoss = before.LogLoss
	}
	line, err := json.Marshal(at)
	if err != nil {
		r.Warn(fmt.Sprintf("the line of %s is not kept: %v", at.Day.Day, err))
	} else {
		r.log.write(line)
	}
	r.events.days(l)
}

// AppendDistributions appends a line to distributions.jsonl, on rank 0. After the first error it warns and
// writes no more.
func (r *Reporter) AppendDistributions(d *metrics.Distributions) {
	r.events.distributions(d)
	if r.spreadLost {
		return
	}
	line, err := json.Marshal(d)
	if err == nil {
		err = r.appendDistributions(append(line, '\n'))
	}
	if err != nil {
		r.spreadLost = true
		r.Warn(fmt.Sprintf("histograms and curves are no longer kept: %v", err))
	}
}

// appendDistributions appends a line to distributions.jsonl, and thins the file at its limit.
func (r *Reporter) appendDistributions(line []byte) error {
	path := filepath.Join(r.dir, rundir.FileDistributions)
	f, err := regular.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(line)
	info, err2 := f.Stat()
	if err = errors.Join(err, err2, f.Close()); err == nil && info.Size() > max(maxDistributions, r.spreadLeft) {
		var size int64
		size, err = thin(path, maxDistributions, false)
		r.spreadLeft = size + size/4
	}
	return err
}

// WarnTierLimit warns once about a table whose tier has less memory than least bytes, the size of
// its index. least is 0 if the memory is sufficient.
func (r *Reporter) WarnTierLimit(c *config.Config, table int, name string, least int64) {
	if least == 0 || r.tight[table] {
		return
	}
	if r.tight == nil {
		r.tight = map[int]bool{}
	}
	r.tight[table] = true
	for _, t := range c.TablesInUse() {
		if t.Name == name {
			r.Warn(fmt.Sprintf("table %q: tier.memory: %d MiB on each rank leave no room next to the index of its rows, which is never on disk: the table takes more, and rows go to disk and come back in every step; give %d or more, or use more ranks", name, t.Tier.Memory, (least+1<<20-1)>>20+1))
		}
	}
}

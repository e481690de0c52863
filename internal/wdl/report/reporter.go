package report

import (
	"fmt"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/live"
	"github.com/wdlrun/wdlrun/internal/wdl/config"
	"github.com/wdlrun/wdlrun/trace"
)

// Reporter reports how a training gets on, on one rank. All ranks of the group make the
// same calls, but for Write and Crowded, which are rank 0's.
type Reporter struct {
	comm  *collective.Comm
	rec   *trace.Recorder
	warn  func(line string)
	since Since
	dir   string
	log   *metricsLog // rank 0
	slow  *lookout
	board *live.Board   // nil: no page shows the job
	spent time.Duration // in steps that the board has
	shown time.Time     // when Due last said that a step is to be shown
	tight map[int]bool  // tables of whose tiers Crowded has warned
}

// Since is where a job begins to count samples, steps and time.
type Since struct {
	Samples int64
	Step    int64
	Totals  [trace.Phases]time.Duration // of the recorder, which an earlier job may have used
}

// New prepares the reports of a rank. Each line of warn is one thing that went wrong.
func New(comm *collective.Comm, rec *trace.Recorder, warn func(line string)) *Reporter {
	return &Reporter{comm: comm, rec: rec, warn: warn}
}

// Begin sets where the job begins to count.
func (r *Reporter) Begin(s Since) { r.since = s }

// Show has the board of rank 0 show what is reported. nil: there is none.
func (r *Reporter) Show(b *live.Board) { r.board = b }

// Since is where the job began to count.
func (r *Reporter) Since() Since { return r.since }

// Open begins the reports of the steps after one: metrics.jsonl of rank 0 without the
// lines of later steps, and the watch for slow ranks, named with their hosts. yaml is the
// configuration in the run directory.
func (r *Reporter) Open(dir string, yaml []byte, hosts []string, step int64, first Effort) {
	r.dir = dir
	if r.comm.Rank() == 0 {
		r.log = openMetrics(dir, yaml, step, r.warn)
	}
	r.slow = &lookout{watch: newWatch(r.comm.Size(), hosts), since: time.Now(), step: step, first: first, was: first}
}

// Close ends them.
func (r *Reporter) Close() { r.log.close() }

// Spent is the time that this rank has spent in training steps of this job.
func (r *Reporter) Spent() (sum time.Duration) {
	totals := r.rec.Totals()
	for _, p := range [...]trace.Phase{trace.Input, trace.Pull, trace.Compute, trace.Push, trace.Sync, trace.Update} {
		sum += totals[p] - r.since.Totals[p]
	}
	return sum
}

// Seconds is Spent, above 0.
func (r *Reporter) Seconds() float64 { return max(r.Spent().Seconds(), 1e-9) }

// Usual is how long a step takes, on average, after so many; 0 before the first.
func (r *Reporter) Usual(step int64) time.Duration {
	n := step - r.since.Step
	if n <= 0 {
		return 0
	}
	return time.Duration(r.Seconds() / float64(n) * float64(time.Second))
}

// Speed is the samples a second of this job, which has trained on so many since the
// training began.
func (r *Reporter) Speed(samples int64) float64 {
	return float64(samples-r.since.Samples) / r.Seconds()
}

const (
	lineEvery = 20                     // steps between two lines of metrics.jsonl
	showPause = 200 * time.Millisecond // between two looks of people, on slow steps
)

// Due reports whether a finished step is to be shown, and whether it gets a line in
// metrics.jsonl.
func (r *Reporter) Due(step int64) (show, line bool) {
	if r.board != nil {
		spent := r.Spent()
		r.board.Step(spent - r.spent)
		r.spent = spent
	}
	line = step%lineEvery == 0 || step == 1
	if !line && time.Since(r.shown) < showPause {
		return false, false
	}
	r.shown = time.Now()
	return true, line
}

// Write adds a line to metrics.jsonl, on rank 0.
func (r *Reporter) Write(l Line) {
	r.log.write(l)
	if l.Metrics != nil {
		r.board.Evaluated(l.Step, l.Metrics, l.Event == "test")
	} else {
		r.board.Trained(l.Step, l.LogLoss, l.Speed, l.Rate)
	}
}

// Crowded warns, once, of a table whose tier needs so many bytes at least for its index,
// with more than it has; 0: it does not.
func (r *Reporter) Crowded(c *config.Config, table int, name string, least int64) {
	if least == 0 || r.tight[table] {
		return
	}
	if r.tight == nil {
		r.tight = map[int]bool{}
	}
	r.tight[table] = true
	for _, t := range c.TablesInUse() {
		if t.Name == name {
			r.warn(fmt.Sprintf("table %q: tier.memory: %d MiB on each rank leave no room next to the index of its rows, which is never on disk: the table takes more, and rows go to disk and come back in every step; give %d or more, or use more ranks", name, t.Tier.Memory, (least+1<<20-1)>>20+1))
		}
	}
}

package live

import (
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/data/stream"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/pace"
	"github.com/wdlrun/wdlrun/internal/text/cut"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/trace"
)

// Limits of a board.
const (
	maxPoints   = 4096
	maxLines    = 500
	longestLine = 1 << 10 // bytes
	recent      = 10      // updates over which the recent split is computed
)

// Info describes a job.
type Info struct {
	Version string
	Hosts   []string // by rank
}

// Rank is the work of a rank since its job began.
type Rank struct {
	Phases [trace.Phases]time.Duration
	CPU    time.Duration
}

// Table is the state of a table over all ranks, and the changes to it in this job.
type Table struct {
	Name                    string
	Rows, Bytes             int64
	Inserted, Evicted, Sent int64 // rows, rows, bytes
}

// Slow is a rank that is currently slower than the others.
type Slow struct {
	Rank   int
	Cause  string
	Factor float64 // ratio to the median

	Probable bool // it is not certain
}

// Update is gathered from all ranks, about once a second.
type Update struct {
	Ranks  []Rank
	Tables []Table
	Slow   []Slow
	LeftOut
}

// LeftOut counts data that is not used.
type LeftOut struct {
	Bad   int64 // unusable records
	Files int64 // unusable files of a stream
	Lost  int64 // records of a stream that no longer existed when they were to be read
}

// trained is a point of the training curves.
type trained struct {
	seq, step         int64
	at                time.Time
	loss, speed, rate float64
}

// evaluated is a point of the evaluation curves.
type evaluated struct {
	seq, step int64
	at        time.Time
	test      bool
	logloss   float64
	auc       float64 // NaN if there is none
}

// line is a line of the log.
type line struct {
	seq     int64
	at      time.Time
	warning bool
	text    string
}

// followed is the state of a stream.
type followed struct {
	away   time.Time // since then it has not been there; zero: it is
	behind []stream.Lag
}

// verdict is the outcome of a job.
type verdict struct {
	good bool
	text string
}

// Board holds what a job has reported so far. All methods are safe for concurrent use.
type Board struct {
	info   Info
	made   time.Time
	steps  prometheus.Histogram
	status atomic.Pointer[func() rank.Status]
	spent  atomic.Int64 // ns of this process in steps
	taken  atomic.Int64 // number of steps
	rows   atomic.Int64 // samples in them

	mu          sync.Mutex
	seq         int64
	merged      int64 // number of times that earlier points were inserted before this job's points
	train       runs.Series[trained]
	valid       runs.Series[evaluated]
	log         []line
	updates     int64
	history     [recent][]Rank // of the last updates
	update      Update
	pace        pace.Pace // of steps, on the clock of steps
	slow        lastSlow
	followed    followed
	runDir      string
	checkpoints []int64   // steps, newest first
	saved       time.Time // when the last checkpoint was found
	versions    versions
	ended       *verdict
	done        chan struct{} // closed by End
}

// NewBoard returns an empty board.
func NewBoard(info Info) *Board {
	return &Board{
		info: info, made: time.Now(), versions: versions{published: map[string]int64{}}, done: make(chan struct{}), train: runs.Series[trained]{Most: maxPoints}, valid: runs.Series[evaluated]{Most: maxPoints},
		steps: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "wdlrun_step_seconds", Help: "Time of a training step on rank 0, waiting for other ranks included.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}),
	}
}

// Watch sets the function that returns the status of the job. It is called whenever the
// board is read, and must not block.
func (b *Board) Watch(status func() rank.Status) {
	if b != nil {
		b.status.Store(&status)
	}
}

// Step records a training step on some samples of all ranks. It neither locks nor allocates.
func (b *Board) Step(took time.Duration, rows int64) {
	if b == nil {
		return
	}
	b.spent.Add(int64(took))
	b.taken.Add(1)
	b.rows.Add(rows)
	b.steps.Observe(took.Seconds())
}

// Trained records the loss and the speed at a step; speed is 0 if it is not known yet.
func (b *Board) Trained(step int64, loss, speed, rate float64) {
	if b == nil {
		return
	}
	if speed == 0 {
		speed = math.NaN()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq++
	b.pace.See(time.Duration(b.spent.Load()), b.taken.Load())
	b.train.Add(trained{b.seq, step, time.Now(), loss, speed, rate})
}

// Evaluated records the metrics of an evaluation after a step.
func (b *Board) Evaluated(step int64, m *metrics.Metrics, test bool) {
	if b == nil {
		return
	}
	auc := math.NaN()
	if m.AUC != nil {
		auc = *m.AUC
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq++
	b.valid.Add(evaluated{b.seq, step, time.Now(), test, m.LogLoss, auc})
}

// Gathered records an update from all ranks. The board retains u.
func (b *Board) Gathered(u Update) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.history[b.updates%recent] = u.Ranks
	b.updates++
	b.update = u
	if sure := slices.DeleteFunc(slices.Clone(u.Slow), func(s Slow) bool { return s.Probable }); len(sure) > 0 {
		b.slow = lastSlow{sure, time.Now()}
	}
}

// Log records a line of the job.
func (b *Board) Log(text string, warning bool) {
	if b == nil {
		return
	}
	text = cut.To(longestLine, text)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq++
	b.log = append(b.log, line{b.seq, time.Now(), warning, text})
	if len(b.log) > 2*maxLines {
		b.log = append([]line(nil), b.log[len(b.log)-maxLines:]...)
	}
}

// lastSlow is the last update that named a slow rank.
type lastSlow struct {
	ranks []Slow
	at    time.Time
}

// Waiting records since when the training has been waiting for its stream to be there again; zero: it is there.
func (b *Board) Waiting(since time.Time) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.followed.away = since
}

// Behind records how many records of each partition of a stream wait to be trained on.
func (b *Board) Behind(lags []stream.Lag) {
	if b == nil || lags == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.followed.behind = lags
}

// versions are the published versions of the job.
type versions struct {
	published map[string]int64 // by outcome
	guard     *guarded         // nil: train.export.guard is disabled
}

// guarded is what train.export.guard finds bad now; empty: nothing.
type guarded struct{ check, why string }

// Guard records what train.export.guard finds bad: the name of its check, and the reason. Empty strings
// mean that versions are published.
func (b *Board) Guard(check, why string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.versions.guard = &guarded{check, cut.To(longestLine, why)}
}

// Published counts a version of the model by its outcome.
func (b *Board) Published(outcome string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.versions.published[outcome]++
}

// End records the outcome of the job.
func (b *Board) End(text string, good bool) {
	if b == nil {
		return
	}
	b.readRun() // for the last checkpoint
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended == nil {
		b.ended = &verdict{good, text}
		close(b.done)
	}
}

// now returns the status of the job.
func (b *Board) now() (s rank.Status) {
	if f := b.status.Load(); f != nil {
		s = (*f)()
	}
	return s
}

// readRun records the run directory, the points of earlier jobs in it, and its checkpoints.
func (b *Board) readRun() {
	dir := b.now().RunDir
	if dir == "" {
		return
	}
	b.mu.Lock()
	fresh := b.runDir == ""
	b.runDir = dir
	b.mu.Unlock()
	if fresh {
		b.remember(dir)
	}
	found, err := checkpoint.List(filepath.Join(dir, checkpoint.Folder))
	if err != nil {
		return // there is none yet, or the job reports the fault of the disk
	}
	var steps []int64
	for _, f := range found {
		steps = append(steps, f.Step)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(steps); n > 0 && (len(b.checkpoints) == 0 || b.checkpoints[0] != steps[0]) {
		b.saved = time.Now()
	}
	b.checkpoints = steps
}

// remember inserts the points of an earlier job in the run directory before the points of this
// one.
func (b *Board) remember(dir string) {
	r, err := runs.Read(dir)
	if err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	train, valid := b.train.Points(), b.valid.Points()
	b.train, b.valid = runs.Series[trained]{Most: maxPoints}, runs.Series[evaluated]{Most: maxPoints}
	for _, p := range r.Train {
		if p.Time.Before(b.made) {
			b.seq++
			b.train.Add(trained{b.seq, p.Step, p.Time, p.LogLoss, p.Speed, p.Rate})
		}
	}
	for i, series := range [][]runs.Point{r.Valid, r.Test} {
		for _, p := range series {
			if p.Time.Before(b.made) && p.Metrics != nil {
				b.seq++
				b.valid.Add(evaluated{b.seq, p.Step, p.Time, i == 1, p.LogLoss, runs.Value(p.Metrics.AUC)})
			}
		}
	}
	for _, p := range train {
		b.seq++
		p.seq = b.seq
		b.train.Add(p)
	}
	for _, p := range valid {
		b.seq++
		p.seq = b.seq
		b.valid.Add(p)
	}
	b.merged++
}

package publish

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/model/step"
)

const (
	// logitLimit is the greatest change of the logits of the same rows by the steps of about one version; see
	// metrics.CompareLogits.
	logitLimit = 3
	// keepEvery is the time between two batches that are kept to score the next version.
	keepEvery = 100 * time.Millisecond
)

// watch is the guard of a training, on rank 0. It measures the samples of that rank. A nil watch does
// nothing.
type watch struct {
	guard
	whole  sums // of the window
	recent sums // since the last version began
	old    sums // of the window, predicted by the last published version during a hold
	job    int64
	held   bool   // this guard holds the folder
	said   string // the reason that was reported
	after  string // the reason of the hold that has ended; "" if a version was published since

	published *opened      // scores during a hold
	opening   chan *opened // receives published; nil: it is not being opened

	mu    sync.Mutex // of what follows
	kept  *keptBatch
	model *export.Model // of the last version that passed
}

// keptBatch is a batch with its logits before the step that learned from it.
type keptBatch struct {
	batch encode.Batch
	logit []float32
	at    time.Time
}

// opened is a version that can score.
type opened struct {
	model  *export.Model
	scorer *step.Scorer
}

// sums are a tally with the spread of the loss. Of early samples, which are negatives first and are repeated as
// positives (label.loss: fake_negative), a prediction p is the share p/(1 + p) of positives.
type sums struct {
	*metrics.Tally
	early           bool
	byLabel         [2]losses // of negatives and positives
	share, positive float64   // early: sums of the expected positives and of the positives
}

// losses are the number of some log-losses, their sum and the sum of their squares.
type losses struct{ n, sum, square float64 }

func (l *losses) add(loss float64) {
	l.n, l.sum, l.square = l.n+1, l.sum+loss, l.square+float64(loss*loss)
}

// moments returns the mean and the standard deviation.
func (l losses) moments() (mean, deviation float64) {
	if l.n == 0 {
		return 0, 0
	}
	mean = l.sum / l.n
	return mean, math.Sqrt(max(l.square/l.n-float64(mean*mean), 0))
}

func newSums(early bool) sums { return sums{Tally: metrics.NewTally(), early: early} }

func (s *sums) add(logit []float32, b *encode.Batch) {
	s.Add(logit, b.Label, b.Weight)
	for i, z := range logit {
		label := 0
		if b.Label[i] > .5 {
			label = 1
		}
		s.byLabel[label].add(metrics.LogLoss(z, label == 1))
		if s.early {
			w, p := 1., metrics.Probability(float64(z))
			if b.Weight != nil {
				w = float64(b.Weight[i])
			}
			s.share, s.positive = s.share+float64(w*p)/(1+p), s.positive+float64(w*float64(b.Label[i]))
		}
	}
}

func (s *sums) evidence() *evidence {
	e := &evidence{Metrics: s.Local()}
	a, b := s.byLabel[0], s.byLabel[1]
	_, e.spread = losses{a.n + b.n, a.sum + b.sum, a.square + b.square}.moments()
	for i, l := range s.byLabel {
		e.byLabel[i].Samples = int64(l.n)
		e.byLabel[i].LogLoss, e.byLabel[i].Spread = l.moments()
	}
	if s.early && e.Calibration != nil {
		calibration := s.share / s.positive
		e.Calibration = &calibration
	}
	return e
}

func (s *sums) reset() {
	s.Reset()
	s.byLabel, s.share, s.positive = [2]losses{}, 0, 0
}

// n returns the number of samples.
func (s *sums) n() int64 { return int64(s.byLabel[0].n + s.byLabel[1].n) }

// newWatch returns nil if the guard is disabled. The reference is of the newest version in the folder.
func newWatch(c config.Guard, early bool, dir string) *watch {
	if c.Action == "" {
		return nil
	}
	w := &watch{guard: guard{limits: c, early: early}, whole: newSums(early), recent: newSums(early), old: newSums(early)}
	if l, err := export.List(dir, false); err == nil { // otherwise the first version reports it
		for _, v := range slices.Backward(l.Versions) {
			if v.State == "ok" && v.Window != nil {
				w.reference = evidenceOf(v.Window)
				break
			}
		}
	}
	return w
}

// add keeps a batch for the next version.
func (w *watch) add(logit []float32, b *encode.Batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kept != nil && time.Since(w.kept.at) < keepEvery {
		return
	}
	k := &keptBatch{logit: slices.Clone(logit), at: time.Now()}
	k.batch.Append(b)
	w.kept = k
}

// openPublished opens the newest version in the background.
func (w *watch) openPublished(dir string) {
	if w.published != nil {
		return
	}
	if w.opening == nil {
		w.opening = make(chan *opened, 1)
		go func(to chan<- *opened) { to <- openNewest(dir) }(w.opening)
	}
	select {
	case w.published = <-w.opening:
		if w.opening = nil; w.published == nil { // there is none: only the windows count
			w.opening = make(chan *opened)
		}
		w.old.reset()
	default:
	}
}

// openNewest opens the newest version that can be opened, nil if none can.
func openNewest(dir string) *opened {
	l, err := export.List(dir, false)
	if err != nil {
		return nil
	}
	for _, v := range slices.Backward(l.Versions) {
		m, err := export.Open(filepath.Join(dir, strconv.FormatInt(v.Version, 10)))
		if err != nil {
			continue
		}
		if s, err := m.NewScorer(); err == nil {
			return &opened{m, s}
		}
		_ = m.Close() // it was only read
	}
	return nil
}

// endHold forgets the version that scored during a hold.
func (w *watch) endHold() {
	w.held, w.said = false, ""
	w.recent.reset()
	w.close()
}

func (w *watch) close() {
	if w == nil {
		return
	}
	if cap(w.opening) > 0 {
		w.published = <-w.opening
	}
	w.opening = nil
	if w.published != nil {
		_ = w.published.model.Close() // it was only read
		w.published = nil
	}
}

// errUnlike is in the error of a version whose logits differ too much from the training's.
var errUnlike = errors.New("train.export.guard")

// unlike returns why the logits of a version differ too much from those before the last steps.
func (w *watch) unlike(m *export.Model) string {
	if w.kept == nil {
		return ""
	}
	s, err := m.NewScorer()
	if err != nil {
		return err.Error()
	}
	z, err := s.Score(&w.kept.batch)
	if err != nil {
		return err.Error()
	}
	if why := metrics.CompareLogits(w.kept.logit, z[:w.kept.batch.Rows], logitLimit); why != "" {
		return fmt.Sprintf("on the last %d samples %s", w.kept.batch.Rows, why)
	}
	return ""
}

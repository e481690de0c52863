package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/export/ledger"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/train/shared"
	"github.com/wdlrun/wdlrun/internal/train/volumes"
	"github.com/wdlrun/wdlrun/sparse"
)

// Publisher publishes the versions of a training. All ranks make the same calls between
// steps, except for Due and CopySlice. A nil Publisher does nothing.
type Publisher struct {
	Setup
	ctx     context.Context
	cancel  context.CancelCauseFunc
	changes *sparse.Changes
	since   int64     // step after which all changes are known
	last    int64     // step of the last version, of this Publisher
	parts   int64     // versions begun
	wants   bool      // rank 0: a checkpoint is needed as the base of the first version
	asked   bool      // wants was set since the last begin
	held    bool      // rank 0: the hold of the folder is reported
	refused string    // rank 0: why the guard admitted no version at the last boundary; "": it did
	skipped string    // rank 0: why the last version could not be written; "": it could
	looked  time.Time // when prepared was called
	at      time.Time
	turned  time.Time
	ready   bool // rank 0: the base of the first version is known
	warned  bool
	dense   bytes.Buffer
	pending *pending
	watch   *watch            // rank 0: see train.export.guard; nil: disabled
	files   *export.Publisher // rank 0
	older   chan older        // rank 0: receives the base of the first version; nil: not being prepared
	reading atomic.Int64      // rank 0: step of the checkpoint that becomes the base; 0: none is being read
}

// Setup configures a Publisher.
type Setup struct {
	shared.Rank
	Trainer *step.Trainer
	Config  *config.Config
	Encoder []byte
	RunDir  string
	Before  string                  // run directory of the model that the training began with; "": none
	Offsets func() []export.Offset  // positions in a stream at the current step, on rank 0; nil: none are known
	Every   time.Duration           // time between versions
	Volumes *volumes.Volumes        // reads files of other hosts; nil: all ranks are on one host
	Wait    bool                    // boundaries wait for versions under way; for tests
	Count   func(outcome string)    // called on rank 0 with an outcome of package export, or of this one
	Guard   func(check, why string) // called on rank 0 with what train.export.guard finds bad, empty for nothing
}

// Observe takes the last batch of a step and its logits, which were computed before the step. It is
// called on rank 0.
func (p *Publisher) Observe(logit []float32, b *encode.Batch) {
	if p == nil || p.watch == nil || len(logit) != b.Rows || b.Rows == 0 {
		return
	}
	w := p.watch
	w.whole.add(logit, b)
	w.recent.add(logit, b)
	w.add(logit, b)
	w.job += int64(b.Rows)
	if w.published != nil {
		if z, err := w.published.scorer.Score(b); err == nil { // of the same layout, so that it can score
			w.old.add(z[:b.Rows], b)
		}
	}
	m := w.whole.evidence
	if w.whole.n() < w.limits.Window {
		return
	}
	var old *evidence
	if w.old.n() > 0 {
		old = w.old.evidence()
	}
	w.window(m(), old)
	w.whole.reset()
	w.old.reset()
	if w.recent.n() >= w.limits.Window { // the window has decided
		w.recent.reset()
	}
	if w.reason != (fault{}) {
		p.Guard(w.reason.check, w.reason.text)
	}
}

// guarded reports on rank 0 whether the guard admits a version. stop is the reason to end the
// training.
func (p *Publisher) guarded() (ok bool, stop string) {
	w := p.watch
	if w == nil || p.files == nil {
		return true, ""
	}
	dir := p.Config.Train.Export.Dir
	hold := ledger.ReadHold(dir)
	switch {
	case w.held && hold == nil:
		w.released()
		w.endHold()
		p.Warn("train.export.guard: the hold was released: versions are published again")
	case !w.held && hold != nil && hold.Guard: // of a job before
		w.held, w.reason, w.said = true, fault{"hold", hold.Reason}, hold.Reason
	}
	if w.held {
		w.openPublished(dir)
	}
	why := w.verdict(w.recent.evidence())
	if why == (fault{}) && w.reference != nil && w.job < w.limits.Window/firstShare {
		p.refused = fmt.Sprintf("this job has used %d samples, too few to compare it with the last version (%d)", w.job, w.limits.Window/firstShare)
		return false, ""
	}
	p.Guard(why.check, why.text)
	switch {
	case why == (fault{}):
		return p.admitted(dir, hold), ""
	case w.limits.Action == "warn":
		w.after = why.text
		p.warnOnce(why.text)
		return true, ""
	case w.limits.Action == "stop":
		return false, "train.export.guard: " + why.text
	}
	p.Count(Guarded)
	p.refused = why.text
	if w.reason == (fault{}) { // of the samples since the last version: a hold is decided when the window is complete
		return false, ""
	}
	if !w.held && hold == nil {
		if err := ledger.WriteHold(dir, ledger.Hold{Reason: why.text, Guard: true}); err != nil {
			p.Warn("train.export.guard: the folder is not held: " + err.Error())
			return false, ""
		}
		w.held = true
		w.openPublished(dir)
	}
	p.warnOnce(why.text + fmt.Sprintf("; nothing is published until %d windows in a row are good, or: wdlrun publish %s -release", goodWindows, dir))
	return false, ""
}

// admitted ends the guard's hold, and reports whether it could.
func (p *Publisher) admitted(dir string, hold *ledger.Hold) bool {
	w := p.watch
	if w.held && hold != nil && hold.Guard {
		if _, err := ledger.RemoveHold(dir); err != nil {
			p.Warn("train.export.guard: the hold does not end: " + err.Error())
			return false
		}
		w.after = hold.Reason
		w.endHold()
		p.Warn(fmt.Sprintf("train.export.guard: %d windows are good: versions are published again", goodWindows))
	}
	w.said = ""
	return true
}

// warnOnce reports the first reason of a series.
func (p *Publisher) warnOnce(why string) {
	if p.watch.said == "" {
		p.Warn("train.export.guard: " + why)
		p.watch.said = why
	}
}

// tryVersion scores a version that is not visible yet. A step may have changed the model so much that the windows
// before it do not show it.
func (p *Publisher) tryVersion(dir string) error {
	w := p.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	m, err := export.OpenAfter(dir, w.model, nil)
	if err != nil {
		return err
	}
	if why := w.unlike(m); why != "" {
		return errors.Join(fmt.Errorf("%w: %s", errUnlike, why), m.Close())
	}
	before := w.model
	if w.model = m; before != nil {
		return before.Close()
	}
	return nil
}

// Outcomes of a version that is not published.
const (
	Skipped = "skipped" // it could not be written
	Held    = "held"    // the folder is on hold
	Guarded = "guarded" // train.export.guard found the predictions bad
)

// older is the model of an earlier checkpoint.
type older struct {
	model *export.Model
	step  int64
	err   error
}

// pending is a version that is being written.
type pending struct {
	export.Point
	copied bool // the changes are copied and are being written
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}
	err    error // set before done is closed
}

package publish

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/export/ledger"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/train/volumes"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// Publisher publishes the versions of a training. All ranks make the same calls between
// steps, except for Due and Turn. A nil Publisher does nothing.
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
}

// Setup configures a Publisher.
type Setup struct {
	Comm    *collective.Comm
	Rec     *trace.Recorder
	Trainer *step.Trainer
	Config  *config.Config
	Encoder []byte
	RunDir  string
	Before  string                 // run directory of the model that the training began with; "": none
	Offsets func() []export.Offset // positions in a stream at the current step, on rank 0; nil: none are known
	Every   time.Duration          // time between versions
	Volumes *volumes.Volumes       // reads files of other hosts; nil: all ranks are on one host
	Wait    bool                   // boundaries wait for versions under way; for tests
	Warn    func(line string)      // called on rank 0
	Count   func(outcome string)   // called on rank 0 with an outcome of package export, Skipped or Held
}

// Observe takes the logits of the last step's samples, which were computed before the step. It is
// called on rank 0.
func (p *Publisher) Observe(logit, label, weight []float32) {
	if p == nil || p.watch == nil || len(logit) != len(label) {
		return
	}
	w := p.watch
	w.tally.Add(logit, label, weight)
	if w.seen += int64(len(logit)); w.seen >= w.limits.Window {
		w.window(w.tally.Local())
		w.tally.Reset()
		w.seen = 0
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
		w.held = false
		w.released()
		p.Warn("train.export.guard: the hold was released: versions are published again")
	case !w.held && hold != nil && hold.Guard: // of a job before
		w.held, w.reason, w.said = true, hold.Reason, hold.Reason
	}
	why := w.verdict(w.tally.Local())
	switch {
	case why == "":
		w.said = ""
		if w.held && hold.Guard {
			if _, err := ledger.RemoveHold(dir); err != nil {
				p.Warn("train.export.guard: the hold does not end: " + err.Error())
				return false, ""
			}
			w.held = false
			p.Warn(fmt.Sprintf("train.export.guard: %d windows are good: versions are published again", goodWindows))
		}
		return true, ""
	case w.limits.Action == "warn":
		p.warnOnce(why)
		return true, ""
	case w.limits.Action == "stop":
		return false, "train.export.guard: " + why
	case w.reason == "": // of an incomplete window: decided when it is complete
		p.Count(Guarded)
		return false, ""
	}
	p.Count(Guarded)
	if !w.held && hold == nil {
		if err := ledger.WriteHold(dir, ledger.Hold{Reason: why, Guard: true}); err != nil {
			p.Warn("train.export.guard: the folder is not held: " + err.Error())
			return false, ""
		}
		w.held = true
	}
	p.warnOnce(why + fmt.Sprintf("; nothing is published until %d windows in a row are good, or: wdlrun publish %s -release", goodWindows, dir))
	return false, ""
}

// warnOnce reports the first reason of a series.
func (p *Publisher) warnOnce(why string) {
	if p.watch.said == "" {
		p.Warn("train.export.guard: " + why)
		p.watch.said = why
	}
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

package train

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/model/plan"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train/evaluate"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/shared"
	"github.com/wdlrun/wdlrun/internal/train/volumes"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/trace"
)

// run is the state shared by the parts of a job: group, configuration, data, model and
// cursor. saves, validation, spans and healing use it and do not depend on the job. A Loader and
// an indexing have a run without these parts.
type run struct {
	shared.Rank
	opt Options
	use input.Use // how the data is used; the zero value is a training

	settings
	runDir  string
	volumes *volumes.Volumes // nil: all ranks are on one host, or Options.Listen is not set
	in      *input.Input
	source  *checkpoint.Checkpoint // model that a new training begins with; nil: none
	stream  *input.Stream          // nil: the training data does not grow
	planned *plan.Plan             // nil in an evaluation
	trainer *step.Trainer
	judged  *step.Trainer // the model of source, after it was evaluated and until the new one is made
	report  *report.Reporter
	faults  faults

	cursor   cursor
	trains   bool         // with replicas: this rank holds its part of a training
	began    time.Time    // start of this job
	turn     *rundir.Turn // of the run directory; on rank 0 and the leaders of volumes
	turnName string       // the same on all ranks
	surveyed bool         // the survey of another training was used
	device   step.Device  // device of this rank; nil: the CPU computes
	shown    report.Status

	gradients []metrics.NormCounts // norms by table since the last evaluation; nil: none are counted

	wants wants
}

// settings are the configuration of a run, and the warnings about it.
type settings struct {
	config  *config.Config // in effect
	written *config.Config // as given, and stored in checkpoints; it differs in the second training of train.refit
	warned  warningLog
}

// wants are requests from outside the training loop.
type wants struct{ save, stop, timeline atomic.Bool }

// init prepares a run on a group.
func (r *run) init(comm *collective.Comm, rec *trace.Recorder, opt Options) {
	if opt.Out == "" {
		opt.Out = "runs"
	}
	if opt.Warn == nil {
		opt.Warn = func(string) {}
	}
	opt.Warn = r.warned.once(r.warned.keep(opt.Warn))
	if opt.Began == nil {
		opt.Began = func() {}
	}
	if opt.Say == nil {
		opt.Say = func(string) {}
	}
	r.cursor.ByLabel = true // unless a checkpoint says otherwise
	r.Rank = shared.Rank{Comm: comm, Rec: rec, PrintWarning: opt.Warn, PrintProgress: opt.Say}
	r.opt, r.report, r.began = opt, report.New(r.Rank), time.Now()
	r.faults.held = new(atomic.Int64)
}

// Status returns the activity of the rank for heartbeats. It may be called from any goroutine.
func (r *run) Status() rank.Status { return r.shown.Now(r.Rec) }

// announce publishes the run directory in the status of the rank.
func (r *run) announce() {
	r.shown.Show(rank.Status{RunDir: r.runDir})
	r.opt.Began()
}

// inputSetup returns the settings of the job's input.
func (r *run) inputSetup() input.Setup {
	return input.Setup{
		Rank: r.Rank, Config: r.config, Counted: r.opt.Day != nil && r.opt.Day.Counted, Lacks: r.opt.Day.missingColumns(), Use: r.use, Shown: &r.shown,
		Hosts: r.opt.Hosts, Volumes: r.volumes, ByLabel: r.cursor.ByLabel, InTime: r.cursor.Refit != nil && r.cursor.Refit.InTime, Keep: r.opt.Replicas > 1 || r.opt.Survey != "" || r.opt.Day != nil,
	}
}

// evaluation returns what the rank evaluates with.
func (r *run) evaluation() *evaluate.Setup {
	return &evaluate.Setup{Rank: r.Rank, Shown: &r.shown, Config: r.config, In: r.in, Trainer: r.trainer}
}

// position describes the position at which the job resumes.
func (r *run) position() string {
	c, of := &r.cursor, fmt.Sprintf("epoch %d of %d", r.cursor.Epoch+1, r.config.Train.Epochs)
	if c.Stream != nil {
		of = fmt.Sprintf("span %d", c.Stream.Spans)
	}
	if c.Refit != nil {
		of += " of the second training (train.refit)"
	}
	switch {
	case c.Consumed > 0:
		return fmt.Sprintf("after step %d, in %s behind row %d of %d", c.Step, of, c.Consumed, c.Rows)
	case c.Stream != nil && len(c.Stream.Span) == 0:
		return fmt.Sprintf("after step %d, behind %s", c.Step, of)
	}
	return fmt.Sprintf("after step %d, with %s", c.Step, of)
}

// done reports whether training has ended, so that only the test remains.
func (r *run) done() bool {
	if r.stream != nil {
		return r.cursor.Enough || r.cursor.Stream.Ended != ""
	}
	return r.cursor.Enough || r.cursor.Epoch >= int64(r.config.Train.Epochs)
}

// maxBrief bounds the size of a brief in bytes.
const maxBrief = 4 * config.MaxBytes

// outOfSteps reports whether the stream has had the configured number of steps, and if so
// ends it.
func (r *run) outOfSteps() bool {
	steps := r.config.Data.Follow.Steps
	if steps == 0 || r.cursor.Step < steps {
		return false
	}
	r.cursor.Stream.Ended = fmt.Sprintf("%d steps, the limit of data.follow.steps", steps)
	return true
}

// evaluatesAfter reports whether train.eval_steps requires an evaluation of the validation
// data after a step.
func (r *run) evaluatesAfter(step int64) bool {
	every := r.config.Train.EvalSteps
	return every > 0 && step%every == 0 && r.in.Valid != nil
}

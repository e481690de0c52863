package train

import (
	"context"
	"slices"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/model/slots"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/trace"
)

// tolerantBatches is the state of a job whose steps do not wait for all ranks.
type tolerantBatches struct {
	rec    *trace.Recorder
	cursor *cursor
	size   int // ranks
	backup int // backup ranks at the start
	steps  *step.Tolerant
	source *input.Source
	read   func(slots.Queue) (*input.Source, error) // reads the rest of an epoch
	log    *save.CommitLog                          // nil except on rank 0
}

// end releases the resources of s, which may be nil.
func (s *tolerantBatches) end() {
	if s != nil {
		s.steps.Close()
		s.source.Close()
		s.log.Close()
	}
}

// last reports whether the coming step is the last of a repeated run.
func (s *tolerantBatches) last() bool { return s != nil && s.steps.Last() }

// tolerate prepares steps that do not wait for all ranks if the options require them; else it
// returns nil. script has the steps of the run that is repeated. changed lists the settings
// that affect steps and differ from the checkpoint's.
func (r *run) tolerate(script []slots.Record, changed []string) (*tolerantBatches, error) {
	how := r.opt.Tolerance
	if how.Off() {
		return nil, r.cursor.checkMode()
	}
	if r.done() {
		return nil, nil
	}
	record, err := recordAt(&r.cursor, r.Comm.Size(), int64(r.config.Train.Global(r.Comm.Size())))
	if err != nil {
		return nil, err
	}
	s := &tolerantBatches{rec: r.Rec, cursor: &r.cursor, size: r.Comm.Size(), backup: how.Backup}
	s.read = func(q slots.Queue) (*input.Source, error) {
		return r.in.Source(q, r.cursor.Rows, r.cursor.in().Before)
	}
	if s.source, err = s.read(record.Queue); err != nil {
		return nil, err
	}
	if script != nil {
		s.steps, err = r.trainer.Replay(how, record, script, s.source)
	} else {
		s.steps, err = r.trainer.Tolerate(how, record, s.source, r.Say)
	}
	if err != nil {
		s.source.Close()
		return nil, err
	}
	if r.Comm.Rank() == 0 {
		s.log = save.OpenCommits(r.runDir, record, r.opt.Warn)
		s.log.Describe(r.runDir, save.Mode{From: record.Step, WorldSize: r.Comm.Size(), Mode: how.Mode.String(), Backup: how.Backup, Auto: how.Auto, Settings: changed})
	}
	return s, nil
}

// total returns the number of steps at the end of the training, provided that as many slots
// count as at its start.
func (s *tolerantBatches) total(t *config.Train) int64 {
	c := s.cursor
	whole := data.Steps(c.Rows, t.Global(s.size)) * int64(s.size)
	counted := s.size - s.backup
	left := max(int64(t.Epochs)-c.Epoch, 0)
	if left == 0 {
		return c.Step
	}
	now := whole
	if q := s.steps.Record().Queue; q.Epoch == c.Epoch {
		now = q.Left()
	}
	return c.Step + data.Steps(now, counted) + (left-1)*data.Steps(whole, counted)
}

func (s *tolerantBatches) open(ctx context.Context) (err error) {
	if q := s.steps.Record().Queue; s.steps.Ended() && q.Epoch < s.cursor.Epoch {
		s.source.Close()
		if s.source, err = s.read(q.NextEpoch()); err != nil {
			return err
		}
		s.steps.Resume(s.source)
	}
	s.source.Begin(ctx)
	return nil
}

func (s *tolerantBatches) next(_ context.Context, c *step.Input) (more bool, err error) {
	if s.steps.Ended() {
		return false, nil
	}
	s.rec.Step(c.N)
	return true, nil
}

func (s *tolerantBatches) stepped(step.Outcome) {
	r := s.steps.Record()
	s.log.Append(r)
	s.cursor.Late += int64(r.Leased - len(r.Pieces))
	s.cursor.Queue = nil
	if r.Queue.Left() > 0 {
		q := r.Queue
		q.Late = slices.Clone(q.Late)
		s.cursor.Queue = &q
	}
}

func (s *tolerantBatches) close() { s.source.End() }

package wdl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/wdl/config"
	"github.com/wdlrun/wdlrun/internal/wdl/save"
	"github.com/wdlrun/wdlrun/internal/wdl/slots"
	"github.com/wdlrun/wdlrun/internal/wdl/step"
)

// slack is what a job keeps whose steps do not wait for all ranks.
type slack struct {
	steps  *step.Tolerant
	source *source
	log    *save.CommitLog // nil but on rank 0
}

func (s *slack) close() {
	if s == nil {
		return
	}
	s.steps.Close()
	s.source.close()
	s.log.Close()
}

// tolerance decides on rank 0 how the training gets on with slow ranks, says so if a
// training that goes on did otherwise before, and notes what else its steps depend on.
func (j *job) tolerance(c *config.Config, from *checkpoint.Checkpoint) (err error) {
	if j.opt.Tolerance, err = j.opt.Tolerance.Of(c); err != nil || from == nil {
		return err
	}
	old, err := save.ReadConfig(from)
	if err != nil {
		return err
	}
	old.Fill()
	j.changed = otherSteps(old, c)
	was, err := step.Tolerance{}.Of(old)
	if now := j.opt.Tolerance; err == nil && was.String() != now.String() {
		j.say(fmt.Sprintf("the training resumes in %v; until step %d it was in %v", now, from.Step(), was))
	}
	return err
}

// tolerate prepares steps that do not wait, if the options say so.
func (j *job) tolerate() error {
	how := j.opt.Tolerance
	if how.Off() {
		return j.cursor.unshared()
	}
	if j.done() {
		return nil
	}
	record, err := j.record()
	if err != nil {
		return err
	}
	s, err := j.open(record.Queue)
	if err != nil {
		return err
	}
	var steps *step.Tolerant
	if j.script != nil {
		steps, err = j.trainer.Replay(how, record, j.script, s)
	} else {
		steps, err = j.trainer.Tolerate(how, record, s, j.say)
	}
	if err != nil {
		s.close()
		return err
	}
	j.slack = &slack{steps: steps, source: s}
	if j.comm.Rank() == 0 {
		j.slack.log = save.OpenCommits(j.runDir, record, j.opt.Warn)
		j.slack.log.Describe(j.runDir, save.Mode{From: record.Step, WorldSize: j.comm.Size(), Mode: how.Mode.String(), Backup: how.Backup, Auto: how.Auto, Settings: j.changed})
	}
	return nil
}

// unshared returns why steps that wait for all ranks cannot go on from a cursor.
func (c *cursor) unshared() error {
	if c.Queue == nil {
		return nil
	}
	return fmt.Errorf("wdl: resume: the checkpoint of step %d is inside an epoch with late microbatches: resume with the mode of that training, or from a checkpoint at the end of an epoch", c.Step)
}

// ordered returns why a training cannot go on from a cursor: it is inside an epoch whose
// samples had the order of another version.
func (c *cursor) ordered() error {
	if c.Order == data.Order || c.Queue == nil && (c.Consumed == 0 || c.Consumed == c.Rows) {
		return nil
	}
	return fmt.Errorf("wdl: resume: the checkpoint of step %d is inside an epoch, after row %d of %d, and was written by a version that orders samples in another way: restart the epoch, from the checkpoint at its beginning", c.Step, c.Consumed, c.Rows)
}

// resumable returns why a training cannot go on from a checkpoint inside an epoch with
// so many ranks, and with how many, or from which other, it could.
func (o Options) resumable(from *checkpoint.Checkpoint, c *config.Config, ranks int) error {
	var at cursor
	if err := save.ReadJSON(from, save.SectionCursor, &at); err != nil {
		return err
	}
	if err := at.ordered(); err != nil {
		return fmt.Errorf("%w%s", err, lastEnd(from.Dir()))
	}
	how, err := o.Tolerance.Of(c)
	if err != nil || at.Queue == nil && how.Off() {
		return err
	}
	if how.Off() {
		err = at.unshared()
	} else {
		_, err = recordAt(&at, ranks, int64(c.Train.Global(ranks)))
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w\n  it is of -np %d%s", err, len(from.Manifest().Files), lastEnd(from.Dir()))
}

// lastEnd tells where, beside a checkpoint, the last one at the end of an epoch is.
func lastEnd(dir string) string {
	all, _ := checkpoint.List(filepath.Dir(dir)) // of none there is nothing to tell
	for _, f := range all {
		c, err := checkpoint.Open(f.Dir)
		if err != nil {
			continue
		}
		if p, err := save.ReadProgress(c); err == nil && p.Consumed == 0 {
			return "; the last one at the end of an epoch: -resume " + f.Dir
		}
	}
	return "; there is none at the end of an epoch"
}

// record is where the coordinator begins.
func (j *job) record() (slots.Record, error) {
	return recordAt(&j.cursor, j.comm.Size(), int64(j.config.Train.Global(j.comm.Size())))
}

// errInside is the error of a checkpoint inside an epoch that was shared out to
// another number of ranks, or in other batches.
var errInside = errors.New("resume on as many ranks and with the same batch, or from a checkpoint at the end of an epoch")

// recordAt is where a coordinator of so many ranks begins from a checkpoint.
func recordAt(c *cursor, size int, batch int64) (slots.Record, error) {
	q := step.Microbatches(c.Epoch, data.Steps(c.Rows, int(batch)), size)
	switch {
	case c.Queue != nil:
		if c.Queue.Total != q.Total || c.Queue.Epoch != q.Epoch {
			return slots.Record{}, fmt.Errorf("wdl: resume: the checkpoint of step %d is inside an epoch of %d microbatches, here there are %d: %w", c.Step, c.Queue.Total, q.Total, errInside)
		}
		q = *c.Queue
	case c.Consumed == c.Rows:
		q.Next = q.Total
	case c.Consumed%batch != 0:
		return slots.Record{}, fmt.Errorf("wdl: resume: the checkpoint of step %d is after row %d of an epoch, where no global batch of %d begins: resume with mode wait, whose batches grow to that size (train.scaling), or from a checkpoint at the end of an epoch", c.Step, c.Consumed, batch)
	default:
		q.Next = c.Consumed / batch * int64(size)
	}
	if err := q.Validate(); err != nil {
		return slots.Record{}, fmt.Errorf("wdl: resume: checkpoint of step %d: %w", c.Step, err)
	}
	return slots.Record{Step: c.Step, Queue: q}, nil
}

// goesOn accepts the checkpoints from which a job that starts again can go on with as
// many ranks as are left.
func (j *job) goesOn(from *checkpoint.Checkpoint) error {
	var at cursor
	if err := save.ReadJSON(from, save.SectionCursor, &at); err != nil {
		return err
	}
	if err := at.ordered(); err != nil || at.Queue == nil {
		return err
	}
	c, _, err := j.opt.config(from)
	if err == nil {
		_, err = recordAt(&at, j.comm.Size(), int64(c.Train.Global(j.comm.Size())))
	}
	return err
}

// slackTotal is total of a training whose steps take the slots that count, as many
// as at its start.
func (j *job) slackTotal() int64 {
	c, size := &j.cursor, int64(j.comm.Size())
	whole := data.Steps(c.Rows, j.config.Train.Global(j.comm.Size())) * size
	counted := int(size) - j.opt.Tolerance.Backup
	left := max(int64(j.config.Train.Epochs)-c.Epoch, 0)
	if left == 0 {
		return c.Step
	}
	now := whole
	if q := j.slack.steps.Record().Queue; q.Epoch == c.Epoch {
		now = q.Left()
	}
	return c.Step + data.Steps(now, counted) + (left-1)*data.Steps(whole, counted)
}

// slackEpoch is epoch by steps that do not wait.
func (j *job) slackEpoch(ctx context.Context) (stopped bool, err error) {
	s := j.slack
	if s.steps.Ended() && s.steps.Record().Queue.Epoch < j.cursor.Epoch {
		next := s.steps.Record().Queue.NextEpoch()
		s.source.close()
		if s.source, err = j.open(next); err != nil {
			return false, err
		}
		s.steps.Resume(s.source)
	}
	s.source.ctx = ctx
	j.shown.Read(s.source.reader)
	defer j.shown.Unread()
	defer j.in.Ended(s.source.reader)
	total := j.total()
	for !s.steps.Ended() {
		j.rec.Step(j.cursor.Step + 1)
		if err := j.faults.strike(j.cursor.Step + 1); err != nil {
			return false, err
		}
		rate := j.rate(total)
		wish := j.wish()
		wish.Stop = wish.Stop || s.steps.Last()
		out, err := s.steps.Step(j.cursor.Step+1, rate, wish)
		if err != nil {
			return false, err
		}
		r := s.steps.Record()
		s.log.Append(r)
		j.cursor.Late += int64(r.Leased - len(r.Pieces))
		j.cursor.Queue = nil
		if r.Queue.Left() > 0 {
			q := r.Queue
			q.Late = slices.Clone(q.Late)
			j.cursor.Queue = &q
		}
		if stop, err := j.stepped(ctx, out, rate, total); stop || err != nil {
			return stop, err
		}
	}
	return false, nil
}

// source gives this rank's microbatches, as the reader reads them, until they
// count.
type source struct {
	ctx    context.Context
	reader *data.Reader
	queue  slots.Queue // of the beginning
	rank   int64
	size   int64
	next   int64 // number of what the reader gives next
	held   map[int64]*encode.Batch
	waited *atomic.Int64 // ns, for the reader
}

// open reads what is left of an epoch.
func (j *job) open(q slots.Queue) (*source, error) {
	first := q.Next
	for _, it := range q.Late {
		first = min(first, it.First)
	}
	s := &source{ctx: context.Background(), queue: q, rank: int64(j.comm.Rank()), size: int64(j.comm.Size()), held: map[int64]*encode.Batch{}, waited: &j.waited}
	s.next = first / s.size
	batch := int64(j.config.Train.Global(j.comm.Size()))
	at := j.cursor.in()
	at.Epoch, at.Consumed = q.Epoch, min(s.next*batch, j.cursor.Rows)
	var err error
	s.reader, err = j.in.Reader(at, 1)
	return s, err
}

func (s *source) Batch(n int64) (*encode.Batch, error) {
	for s.next <= n {
		begin := time.Now()
		b, err := s.reader.Next(s.ctx)
		s.waited.Add(int64(time.Since(begin)))
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		if s.wanted(s.next*s.size + s.rank) {
			s.held[s.next] = b
		} else {
			s.reader.Recycle(b)
		}
		s.next++
	}
	b := s.held[n]
	if b == nil {
		return nil, fmt.Errorf("wdl: microbatch %d of rank %d counts already", n, s.rank)
	}
	return b, nil
}

// wanted reports whether a microbatch was left at the beginning.
func (s *source) wanted(item int64) bool {
	return item >= s.queue.Next || slices.ContainsFunc(s.queue.Late, func(it slots.Item) bool { return it.First == item })
}

func (s *source) Done(n int64) {
	if b := s.held[n]; b != nil {
		s.reader.Recycle(b)
		delete(s.held, n)
	}
}

func (s *source) close() { s.reader.Close() }

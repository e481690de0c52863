package wdl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/wdlrun/wdlrun/data"
	"github.com/wdlrun/wdlrun/rank/commit"
)

// slack is what a job keeps whose steps do not wait for all ranks.
type slack struct {
	steps  *Tolerant
	source *source
	log    *commitLog // nil but on rank 0
}

func (s *slack) close() {
	if s == nil {
		return
	}
	s.steps.Close()
	s.source.close()
	s.log.close()
}

// tolerate prepares steps that do not wait, if the options say so.
func (j *job) tolerate() error {
	how := j.opt.Tolerance
	if how.off() {
		if j.cursor.Queue != nil {
			return fmt.Errorf("wdl: resume: the checkpoint of step %d stands inside an epoch of which microbatches are late: resume with the mode of that training, or from a checkpoint at the end of an epoch", j.cursor.Step)
		}
		return nil
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
	say := func(line string) { j.say(line) }
	steps, err := j.trainer.Tolerate(how, record, s, say)
	if err != nil {
		s.close()
		return err
	}
	j.slack = &slack{steps: steps, source: s}
	if j.comm.Rank() == 0 {
		j.slack.log = openCommits(j.runDir, record, j.opt.Warn)
		j.slack.log.describe(j.runDir, runMode{j.comm.Size(), how.Mode.String(), how.Backup, how.Auto})
	}
	return nil
}

// record is where the coordinator begins.
func (j *job) record() (commit.Record, error) {
	c, size, batch := &j.cursor, j.comm.Size(), int64(j.config.Train.Global(j.comm.Size()))
	q := Microbatches(c.Epoch, data.Steps(c.Rows, int(batch)), size)
	switch {
	case c.Queue != nil:
		if c.Queue.Total != q.Total || c.Queue.Epoch != q.Epoch {
			return commit.Record{}, fmt.Errorf("wdl: resume: the checkpoint of step %d stands inside an epoch of %d microbatches, here there are %d: resume on as many ranks and with the same batch, or from a checkpoint at the end of an epoch",
				c.Step, c.Queue.Total, q.Total)
		}
		q = *c.Queue
	case c.Consumed%batch != 0:
		return commit.Record{}, fmt.Errorf("wdl: resume: the checkpoint of step %d stands after row %d of an epoch, where no global batch of %d begins: resume from one at the end of an epoch", c.Step, c.Consumed, batch)
	default:
		q.Next = c.Consumed / batch * int64(size)
	}
	if err := q.Validate(); err != nil {
		return commit.Record{}, fmt.Errorf("wdl: resume: checkpoint of step %d: %w", c.Step, err)
	}
	return commit.Record{Step: c.Step, Queue: q}, nil
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
	if s.steps.Ended() {
		next := s.steps.Record().Queue.NextEpoch()
		s.source.close()
		if s.source, err = j.open(next); err != nil {
			return false, err
		}
		s.steps.Resume(s.source)
	}
	s.source.ctx = ctx
	j.shown.reader.Store(s.source.reader)
	defer j.shown.reader.Store(nil)
	total := j.total()
	for !s.steps.Ended() {
		j.rec.Step(j.cursor.Step + 1)
		j.faults.kill(j.cursor.Step + 1)
		rate := j.rate(total)
		wish := j.wish()
		wish.Stop = wish.Stop || s.steps.lastOfScript()
		out, err := s.steps.Step(j.cursor.Step+1, rate, wish)
		if err != nil {
			return false, err
		}
		r := s.steps.Record()
		s.log.append(r)
		j.cursor.Queue = nil
		if r.Queue.Left() > 0 {
			q := r.Queue
			q.Late = slices.Clone(q.Late)
			j.cursor.Queue = &q
		}
		if stop, err := j.stepped(out, rate, total); stop || err != nil {
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
	queue  commit.Queue // of the beginning
	rank   int64
	size   int64
	next   int64 // number of what the reader gives next
	held   map[int64]*data.Batch
}

// open reads what is left of an epoch.
func (j *job) open(q commit.Queue) (*source, error) {
	first := q.Next
	for _, it := range q.Late {
		first = min(first, it.First)
	}
	s := &source{ctx: context.Background(), queue: q, rank: int64(j.comm.Rank()), size: int64(j.comm.Size()), held: map[int64]*data.Batch{}}
	s.next = first / s.size
	batch := int64(j.config.Train.Global(j.comm.Size()))
	was := j.cursor.Epoch
	j.cursor.Epoch = q.Epoch
	defer func() { j.cursor.Epoch = was }()
	var err error
	s.reader, err = j.reader(min(s.next*batch, j.cursor.Rows))
	return s, err
}

func (s *source) Batch(n int64) (*data.Batch, error) {
	for s.next <= n {
		b, err := s.reader.Next(s.ctx)
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
	return item >= s.queue.Next || slices.ContainsFunc(s.queue.Late, func(it commit.Item) bool { return it.First == item })
}

func (s *source) Done(n int64) {
	if b := s.held[n]; b != nil {
		s.reader.Recycle(b)
		delete(s.held, n)
	}
}

func (s *source) close() { s.reader.Close() }

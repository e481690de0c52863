package wdl

import (
	"context"
	"errors"
	"io"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/wdl/step"
	"github.com/wdlrun/wdlrun/trace"
)

// rounds takes the steps of an epoch. Steps that wait for all ranks and steps that do not
// differ in which rank trains on which samples, and in when it is decided what counts.
type rounds interface {
	open(ctx context.Context) error                  // what is left of the epoch
	next(ctx context.Context) (more bool, err error) // reads for the coming step
	step(coming) (step.Outcome, error)
	close() // ends the epoch
}

// coming is a step that is to be taken.
type coming struct {
	step  int64
	rate  float64 // factor of the learning rates
	wish  step.Wish
	ahead bool // the rows of the step after may be pulled meanwhile
}

// lanes are steps that wait for all ranks: each takes the next batch of every reader.
type lanes struct {
	rec        *trace.Recorder
	cursor     *cursor
	begin      func() ([]*data.Reader, error)
	end        func([]*data.Reader)
	take       func(c coming, now, ahead []*encode.Batch) (step.Outcome, error)
	readers    []*data.Reader
	now, ahead []*encode.Batch // of the coming step and the one after, by reader; empty: there is none
	begun      bool            // the first batches have been read
}

// newLanes are the steps of a training of which every rank trains on its part of each
// batch: one lane. Its reader continues from epoch to epoch.
func (j *job) newLanes() *lanes {
	return &lanes{
		rec: j.rec, cursor: &j.cursor,
		begin: func() ([]*data.Reader, error) {
			r, err := j.in.Feed(j.cursor.in())
			return []*data.Reader{r}, err
		},
		end: func([]*data.Reader) {},
		take: func(c coming, now, ahead []*encode.Batch) (step.Outcome, error) {
			var next *encode.Batch
			if len(ahead) > 0 {
				next = ahead[0]
			}
			return j.trainer.Step(c.step, c.rate, now[0], next, c.wish)
		},
	}
}

// newSlotLanes are the steps of a training in slots: a lane for each slot of this rank.
func (j *job) newSlotLanes(slots int) *lanes {
	steps := step.NewSlots(j.trainer, slots)
	return &lanes{
		rec: j.rec, cursor: &j.cursor,
		begin: func() (all []*data.Reader, err error) {
			for _, s := range steps.Mine() {
				r, err := j.in.PartReader(j.cursor.in(), 1, s, slots, j.config.Train.GlobalBatch)
				if err != nil {
					return all, err
				}
				all = append(all, r)
			}
			j.shown.Read(all[0])
			return all, nil
		},
		end: func(all []*data.Reader) {
			j.shown.Unread()
			for _, r := range all {
				r.Close()
				j.in.Ended(r)
			}
		},
		take: func(c coming, now, ahead []*encode.Batch) (step.Outcome, error) {
			return steps.Step(c.step, c.rate, now, ahead, c.wish)
		},
	}
}

func (l *lanes) open(context.Context) (err error) {
	l.now, l.ahead, l.begun = l.now[:0], l.ahead[:0], false
	if l.readers, err = l.begin(); err != nil {
		l.close()
	}
	return err
}

func (l *lanes) next(ctx context.Context) (more bool, err error) {
	if !l.begun {
		if l.ahead, err = l.read(ctx, l.ahead); err != nil {
			return false, err
		}
		l.begun = true
	}
	for i, b := range l.now {
		l.readers[i].Recycle(b)
	}
	if l.now, l.ahead = l.ahead, l.now[:0]; len(l.now) == 0 {
		return false, nil
	}
	l.ahead, err = l.read(ctx, l.ahead)
	return err == nil, err
}

// read reads a batch of every reader, none after the last. Every rank has as many.
func (l *lanes) read(ctx context.Context, to []*encode.Batch) ([]*encode.Batch, error) {
	for _, r := range l.readers {
		l.rec.Step(l.cursor.Step + 1)
		l.rec.Enter(trace.Input)
		b, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return to[:0], nil
		}
		if err != nil {
			return to, err
		}
		to = append(to, b)
	}
	return to, nil
}

func (l *lanes) step(c coming) (step.Outcome, error) {
	if !c.ahead {
		return l.take(c, l.now, nil)
	}
	return l.take(c, l.now, l.ahead)
}

func (l *lanes) close() { l.end(l.readers) }

// chooseRounds returns the steps that the configuration asks for.
func (j *job) chooseRounds() rounds {
	switch s := j.config.Train.Slots; {
	case j.slack != nil:
		return j.slack
	case s > 0:
		return j.newSlotLanes(s)
	}
	return j.newLanes()
}

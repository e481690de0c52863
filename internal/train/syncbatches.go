package train

import (
	"context"
	"errors"
	"io"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/trace"
)

// batchSource supplies the batches of the steps of an epoch.
type batchSource interface {
	open(ctx context.Context) error // starts reading the rest of the epoch
	// next adds the batches of the coming step; more is false after the last step.
	next(ctx context.Context, c *step.Input) (more bool, err error)
	stepped(step.Outcome) // records the outcome of a step
	close()               // ends the epoch
}

// syncBatches supplies steps that wait for all ranks: each step takes the next batch of every
// reader.
type syncBatches struct {
	rec        *trace.Recorder
	cursor     *cursor
	begin      func() ([]*data.Reader, error)
	end        func([]*data.Reader)
	readers    []*data.Reader
	now, ahead []*encode.Batch // batches of the coming step and of the one after it, by reader; empty: none
	begun      bool            // the first batches have been read
}

// newSyncBatches returns the batches of a rank that trains on its part of each batch. Its reader continues
// from epoch to epoch.
func (r *run) newSyncBatches() *syncBatches {
	return &syncBatches{
		rec: r.Rec, cursor: &r.cursor,
		begin: func() ([]*data.Reader, error) {
			reader, err := r.in.Feed(r.cursor.in())
			return []*data.Reader{reader}, err
		},
		end: func([]*data.Reader) {},
	}
}

// newSlotBatches returns the batches of each of this rank's slots.
func (r *run) newSlotBatches(slots int) *syncBatches {
	mine := r.trainer.InSlots(slots)
	return &syncBatches{
		rec: r.Rec, cursor: &r.cursor,
		begin: func() (all []*data.Reader, err error) {
			for _, s := range mine {
				reader, err := r.in.PartReader(r.cursor.in(), 1, s, slots, r.config.Train.GlobalBatch)
				if err != nil {
					return all, err
				}
				all = append(all, reader)
			}
			r.shown.Read(all[0])
			return all, nil
		},
		end: func(all []*data.Reader) {
			r.shown.Unread()
			for _, reader := range all {
				reader.Close()
				r.in.Ended(reader)
			}
		},
	}
}

func (l *syncBatches) open(context.Context) (err error) {
	l.now, l.ahead, l.begun = l.now[:0], l.ahead[:0], false
	if l.readers, err = l.begin(); err != nil {
		l.close()
	}
	return err
}

func (l *syncBatches) next(ctx context.Context, c *step.Input) (more bool, err error) {
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
	c.Batches, c.Next = l.now, l.ahead
	return err == nil, err
}

// read reads a batch from every reader; the result is empty after the last batch. All readers
// have the same number of batches.
func (l *syncBatches) read(ctx context.Context, to []*encode.Batch) ([]*encode.Batch, error) {
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

func (l *syncBatches) stepped(step.Outcome) {}

func (l *syncBatches) close() { l.end(l.readers) }

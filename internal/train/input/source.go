package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/slots"
)

// Source supplies the microbatches of this rank in one epoch and keeps each until it counts.
// The goroutine that computes uses it; the one that trains calls Begin, End and Close while
// no step is under way.
type Source struct {
	in     *Input
	ctx    context.Context
	reader *data.Reader
	queue  slots.Queue // queue at the beginning
	next   int64       // number of the next microbatch of the reader
	held   map[int64]*encode.Batch
}

// Source returns a Source of the microbatches that a queue has left of an epoch with the
// given number of rows. before is the number of samples trained on in earlier epochs.
func (in *Input) Source(q slots.Queue, rows, before int64) (*Source, error) {
	first, size := q.Next, in.Comm.Size()
	for _, it := range q.Late {
		first = min(first, it.First)
	}
	s := &Source{in: in, ctx: context.Background(), queue: q, next: first / int64(size), held: map[int64]*encode.Batch{}}
	var err error
	s.reader, err = in.Reader(At{q.Epoch, min(s.next*int64(in.Config.Train.Global(size)), rows), before}, 1)
	return s, err
}

// Begin sets the context that ends further waits for the reader.
func (s *Source) Begin(ctx context.Context) {
	s.ctx = ctx
	s.in.Shown.Read(s.reader)
}

// End adds the counters of the reader.
func (s *Source) End() {
	s.in.Ended(s.reader)
	s.in.Shown.Unread()
}

// Batch returns the microbatch with number n in the epoch.
func (s *Source) Batch(n int64) (*encode.Batch, error) {
	for s.next <= n {
		begin := time.Now()
		b, err := s.reader.Next(s.ctx)
		s.in.waited.Add(int64(time.Since(begin)))
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		if s.wanted(s.next) {
			s.held[s.next] = b
		} else {
			s.reader.Recycle(b)
		}
		s.next++
	}
	b := s.held[n]
	if b == nil {
		return nil, fmt.Errorf("microbatch %d of rank %d counts already", n, s.in.Comm.Rank())
	}
	return b, nil
}

// wanted reports whether microbatch n was left at the beginning.
func (s *Source) wanted(n int64) bool {
	item := n*int64(s.in.Comm.Size()) + int64(s.in.Comm.Rank())
	return item >= s.queue.Next || slices.ContainsFunc(s.queue.Late, func(it slots.Item) bool { return it.First == item })
}

// Done releases the memory of a microbatch that counts.
func (s *Source) Done(n int64) {
	if b := s.held[n]; b != nil {
		s.reader.Recycle(b)
		delete(s.held, n)
	}
}

// Close closes the reader.
func (s *Source) Close() { s.reader.Close() }

package sparse

import (
	"errors"
	"fmt"

	"github.com/wdlrun/wdlrun/internal/raw"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// staged holds the gradients of one table that wait for the next Apply: one per
// distinct key, summed over ranks.
type staged struct {
	set   *table.Set
	rows  []table.Row // by number in set: the key's row, 0 if not held
	grads []float32   // by number in set: V values
}

func (g *staged) reset() {
	g.set.Reset()
	g.rows, g.grads = g.rows[:0], g.grads[:0]
}

func (g *staged) bytes() int64 {
	return g.set.Bytes() + 4*int64(cap(g.rows)) + 4*int64(cap(g.grads))
}

func (g *staged) gradients() table.Gradients {
	return table.Gradients{Keys: g.set.Keys(), Rows: g.rows, Values: g.grads}
}

// Push sends the gradients of a pulled batch to the owners of its keys, where
// they wait for Apply; every rank calls it. The keys do not travel again.
func (s *Store) Push(l *Lookup) error {
	if l.store != s {
		panic("sparse: Push: the Lookup belongs to another Store")
	}
	fault := func(err error) error { return fmt.Errorf("sparse: push: rank %d of %d: %w", s.rank, s.size, err) }
	switch {
	case l.state == idle:
		return fault(errors.New("nothing has been pulled into this Lookup"))
	case l.state == reading:
		return fault(errors.New("the Lookup was pulled with insert=false, for reading only"))
	case l.state == pushed:
		return fault(errors.New("the Lookup is pushed already"))
	case l.generation != s.generation:
		return fault(errors.New("the store was reset after the pull: pull again"))
	}
	l.state = pushed
	// The answer to the pull has the shape of the gradients; its memory serves twice.
	if err := s.ex.AllToAllV(raw.Bytes(l.grads), l.want.rowBytes, raw.Bytes(l.give.rows), l.give.rowBytes); err != nil {
		return fault(fmt.Errorf("exchange of gradients: %w", err))
	}
	for r := range s.size {
		if r != s.rank {
			s.counters.GradBytesSent += int64(l.want.rowBytes[r])
			s.counters.GradBytesReceived += int64(l.give.rowBytes[r])
		}
	}
	s.stage(l)
	return nil
}

// stage adds received gradients to those that wait, ranks in order.
func (s *Store) stage(l *Lookup) {
	k, w := 0, 0
	for i, count := range l.give.counts {
		t, n := i%len(s.tables), int(count)
		width := s.tables[t].Width()
		s.ids = resize(s.ids, n)
		s.staged[t].add(l.give.keys[k:k+n], l.held[k:k+n], l.give.rows[w:w+n*width], s.ids)
		k, w = k+n, w+n*width
	}
}

// add sums gradients, len(grads)/len(keys) values each, into those that wait.
func (g *staged) add(keys []uint64, held []table.Row, grads []float32, ids []uint32) {
	if len(keys) == 0 {
		return
	}
	width := len(grads) / len(keys)
	g.set.Add(keys, ids)
	for j, id := range ids {
		grad := grads[j*width : (j+1)*width]
		if int(id) < len(g.rows) {
			addTo(g.grads[int(id)*width:][:width], grad)
			continue
		}
		g.rows = append(g.rows, held[j])
		g.grads = append(g.grads, grad...)
	}
}

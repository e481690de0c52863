package sparse

import (
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// Push sends the gradients of a pulled batch to the owners of its keys, which stage them
// for Apply. Every rank calls it. The keys are not sent again.
func (s *Store) Push(l *Lookup) error {
	if err := s.mayPush(l); err != nil {
		return err
	}
	l.state = pushed
	return s.push(l, &s.link)
}

func (s *Store) push(l *Lookup, k *link) error {
	err := s.exchangeGrads(l, k, l.onGrads)
	if l.first = false; err != nil {
		return err
	}
	if l.bagged != nil {
		return l.bagged.push(k, false, l.onStage)
	}
	return nil
}

// mayPush returns an error if l cannot be pushed.
func (s *Store) mayPush(l *Lookup) error {
	s.owns("push", l)
	why := ""
	switch {
	case l.state <= prepared:
		why = "nothing has been pulled into this Lookup"
	case l.state == reading:
		why = "the Lookup was pulled with insert=false, for reading only"
	case l.state == pushed:
		why = "the Lookup is pushed already"
	case l.generation != s.generation:
		why = "the store was reset after the pull: pull again"
	case s.pipeline.pushing:
		why = "another batch has been pushed: call Apply first"
	default:
		return nil
	}
	return fmt.Errorf("sparse: push: rank %d of %d: %s", s.rank, s.size, why)
}

// exchangeGrads sends the gradients to the owners; visit receives the gradients of each rank.
func (s *Store) exchangeGrads(l *Lookup, k *link, visit func(from int, part []byte) error) error {
	return s.sendGrads(l, k, l.wireGrads(), visit)
}

// sendGrads sends wire in place of the gradients.
func (s *Store) sendGrads(l *Lookup, k *link, wire []byte, visit func(from int, part []byte) error) error {
	if err := k.visit.AllToAllVisit(wire, l.want.gradBytes, l.give.gradBytes, visit); err != nil {
		return fmt.Errorf("sparse: push: rank %d of %d: exchange of gradients: %w", s.rank, s.size, err)
	}
	for r := range s.size {
		if r != s.rank {
			s.counters.GradBytesSent += int64(l.want.gradBytes[r])
			s.counters.GradBytesReceived += int64(l.give.gradBytes[r])
		}
	}
	return nil
}

// wireGrads returns the gradients in the format of the wire: in place, unless some are
// encoded.
func (l *Lookup) wireGrads() []byte {
	s := l.store
	if !s.encodes {
		return raw.Bytes(l.grads[:l.rowAt[len(l.want.counts)]])
	}
	total := 0
	for _, n := range l.want.gradBytes {
		total += n
	}
	wire := l.send.rows.take(total) // the answers have been read
	to := wire
	for i := range l.want.counts {
		p, grads := s.wire[i%len(s.tables)].Gradients, l.grads[l.rowAt[i]:l.rowAt[i+1]]
		p.encode(to, grads)
		to = to[p.section(len(grads)):]
	}
	return wire
}

// receiveGrads stages the gradients of a rank. It is called for ranks in order.
func (l *Lookup) receiveGrads(from int, part []byte) error {
	if l.store.size == 1 && l.lend() {
		return nil
	}
	if from == 0 {
		l.beginStaging()
	}
	return l.eachGrads(from, part, l.onStage)
}

// beginStaging stages the keys that all ranks requested, unless others are staged already.
func (l *Lookup) beginStaging() {
	s := l.store
	if s.size == 1 || s.anyStaged() {
		return
	}
	l.first = true
	for t, g := range s.staged {
		g.set.Append(l.asked[t].Keys())
	}
}

// anyStaged reports whether any gradient is staged.
func (s *Store) anyStaged() bool {
	return slices.ContainsFunc(s.staged, func(g *staged) bool { return g.set.Len() > 0 })
}

// lend stages the gradients of this rank without copying them. It returns false if they
// must be encoded or added to others.
func (l *Lookup) lend() bool {
	s := l.store
	if s.encodes || l.bagged != nil || s.anyStaged() {
		return false
	}
	for t, g := range s.staged {
		keys, held := l.section(s.rank, t)
		g.set.Append(keys)
		g.finite = false
		g.lent, g.rows, g.epoch, g.grads = true, held, l.epoch[t], l.grads[l.rowAt[t]:l.rowAt[t+1]]
	}
	return true
}

// stage is the sink that stages gradients for Apply.
func (l *Lookup) stage(from, t int, keys []uint64, held []table.Row, grads []float32) {
	s := l.store
	if l.first {
		s.staged[t].sum(held, l.epoch[t], grads, l.numbers(from, t))
		return
	}
	s.ids = resize(s.ids, len(keys))
	s.staged[t].add(keys, held, l.epoch[t], grads, s.ids)
}

// eachGrads passes the gradients of a rank to a sink, by table.
func (l *Lookup) eachGrads(from int, part []byte, to sink) error {
	s := l.store
	for t, x := range s.tables {
		keys, held := l.section(from, t)
		p, n := s.wire[t].Gradients, len(keys)*x.Width()
		wire := part[:p.section(n)]
		part = part[len(wire):]
		to(from, t, keys, held, l.decoded(p, wire, n))
	}
	return nil
}

// decoded returns n numbers of wire, decoded if necessary.
func (l *Lookup) decoded(p Precision, wire []byte, n int) []float32 {
	if p == FP32 {
		return raw.Of[float32](wire)
	}
	l.floats = resize(l.floats, n)
	p.decode(l.floats, wire)
	return l.floats
}

package sparse

import (
	"fmt"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// staged holds the gradients of one table until the next Apply: one per distinct key,
// summed over ranks.
type staged struct {
	set    *table.Set
	rows   []table.Row // by number in set: the key's row as of epoch, 0 if not held
	epoch  uint64
	grads  []float32 // by number in set: V values
	lent   bool      // rows and grads belong to a Lookup, until its next pull
	finite bool      // all grads were checked to be finite, and none was added since
}

func (g *staged) reset() {
	g.set.Reset()
	if g.lent {
		g.lent, g.rows, g.grads = false, nil, nil
	}
	g.rows, g.grads, g.finite = g.rows[:0], g.grads[:0], false
}

// own copies rows and grads if they are lent.
func (g *staged) own() {
	if g.lent {
		g.lent, g.rows, g.grads = false, slices.Clone(g.rows), slices.Clone(g.grads)
	}
}

func (g *staged) bytes() int64 {
	return g.set.Bytes() + 4*int64(cap(g.rows)) + 4*int64(cap(g.grads))
}

// gradients returns the gradients for the table's Apply.
func (g *staged) gradients() table.Gradients {
	return table.Gradients{Keys: g.set.Keys(), Rows: g.rows, Epoch: g.epoch, Values: g.grads, Finite: g.finite}
}

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

// takeGrads stages the gradients of a rank. It is called for ranks in order.
func (l *Lookup) takeGrads(from int, part []byte) error {
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

// add adds gradients, len(grads)/len(keys) values each, to the staged ones. held are the
// rows of keys as of epoch. ids are overwritten.
func (g *staged) add(keys []uint64, held []table.Row, epoch uint64, grads []float32, ids []uint32) {
	if len(keys) == 0 {
		return
	}
	g.own()
	g.set.Add(keys, ids)
	g.sum(held, epoch, grads, ids)
}

// sum is add for keys whose numbers in the set are ids.
func (g *staged) sum(held []table.Row, epoch uint64, grads []float32, ids []uint32) {
	if len(ids) == 0 {
		return
	}
	g.finite = false
	if len(g.rows) == 0 {
		g.epoch = epoch
	}
	width, before := len(grads)/len(ids), len(g.rows)
	for j, id := range ids {
		if int(id) < len(g.rows) {
			continue
		}
		row := held[j]
		if epoch != g.epoch {
			row = 0 // Apply finds the row
		}
		g.rows = append(g.rows, row)
	}
	if len(g.rows)-before == len(ids) { // all keys are new and in order
		g.grads = append(g.grads, grads...)
		return
	}
	g.grads = slices.Grow(g.grads, width*len(g.rows)-len(g.grads))[:width*len(g.rows)]
	clear(g.grads[width*before:])
	if len(g.grads) > math.MaxUint32 {
		for j, id := range ids {
			addTo(g.grads[int(id)*width:][:width], grads[j*width:])
		}
		return
	}
	for j := range ids {
		ids[j] *= uint32(width)
	}
	f32.PoolGrad(g.grads, f32.Bags{At: ids}, grads, width, width)
}

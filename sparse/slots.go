package sparse

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/sparse/table"
)

// Slots returns the calls that keep the gradients of microbatches separate.
func (s *Store) Slots() *Slots { return &s.slots }

func (x *Slots) find(number int) (int, bool) {
	return slices.BinarySearchFunc(x.waiting, number, func(a *slot, n int) int { return cmp.Compare(a.number, n) })
}

// open returns an empty slot for arriving gradients, or nil if the slot exists: the first
// copy counts.
func (x *Slots) open(number, tables int) *slot {
	i, found := x.find(number)
	if found {
		return nil
	}
	var of *slot
	if n := len(x.free); n > 0 {
		of, x.free = x.free[n-1], x.free[:n-1]
	} else {
		of = &slot{tables: make([]slotTable, tables)}
	}
	of.number = number
	for t := range of.tables {
		g := &of.tables[t]
		g.keys, g.held, g.values = g.keys[:0], g.held[:0], g.values[:0]
	}
	x.waiting = slices.Insert(x.waiting, i, of)
	return of
}

// clear removes all slots.
func (x *Slots) clear() {
	x.free = append(x.free, x.waiting...)
	clear(x.waiting)
	x.waiting = x.waiting[:0]
}

func (x *Slots) bytes() (n int64) {
	for _, list := range [][]*slot{x.waiting, x.free} {
		for _, of := range list {
			for t := range of.tables {
				g := &of.tables[t]
				n += 8*int64(cap(g.keys)) + 4*int64(cap(g.held)) + 4*int64(cap(g.values))
			}
		}
	}
	return n
}

// noSlot is the number sent by a rank whose gradients do not count.
const noSlot = -1

// Push is Store.Push of the microbatch of a slot. The owners keep its gradients
// separate until Commit. Every rank calls Push or PushNone. If a slot is pushed twice,
// the first copy counts.
func (x *Slots) Push(l *Lookup, slot int) error {
	s := x.store
	if err := s.mayPush(l); err != nil {
		return err
	}
	fault := func(format string, args ...any) error {
		return fmt.Errorf("sparse: push: rank %d of %d: "+format, append([]any{s.rank, s.size}, args...)...)
	}
	if slot < 0 {
		return fault("slot %d: slots count from 0", slot)
	}
	l.state = pushed
	s.pipeline.wait()
	if err := x.announce(slot); err != nil {
		return fault("exchange of slots: %w", err)
	}
	err := s.exchangeGrads(l, &s.link, l.delivery.onGrads)
	if err == nil && l.bagged != nil {
		err = l.bagged.push(&s.link, false, l.delivery.onKeep)
	}
	return err
}

// PushNone takes part in Push for a rank whose gradients do not count. It does not
// access the gradients of l, so another goroutine may still be computing with them. l
// must not be reused until that goroutine has finished.
func (x *Slots) PushNone(l *Lookup) error {
	s := x.store
	if err := s.mayPush(l); err != nil {
		return err
	}
	if err := x.announce(noSlot); err != nil {
		return fmt.Errorf("sparse: push: rank %d of %d: exchange of slots: %w", s.rank, s.size, err)
	}
	total := 0
	for _, n := range l.want.gradBytes {
		total += n
	}
	x.nothing = resize(x.nothing, (total+7)/8)
	if err := s.sendGrads(l, &s.link, bytesOf(x.nothing)[:total], l.delivery.onGrads); err != nil || l.bagged == nil {
		return err
	}
	return l.bagged.push(&s.link, true, l.delivery.onKeep)
}

// announce exchanges the slot numbers of all ranks.
func (x *Slots) announce(slot int) error {
	s := x.store
	x.tags, x.received = resize(x.tags, s.size), resize(x.received, s.size)
	for r := range x.tags {
		x.tags[r] = int64(slot)
	}
	s.counters.CountBytesSent += int64(8 * (s.size - 1))
	return s.ex.AllToAll(x.tags, x.received)
}

func (d *delivery) init(l *Lookup) {
	d.l, d.opened = l, make([]*slot, l.store.size)
	d.onGrads, d.onKeep = d.receive, d.store
}

// receive stores the gradients of a rank in the slot that it announced.
func (d *delivery) receive(from int, part []byte) error {
	x := &d.l.store.slots
	d.opened[from] = nil
	if x.received[from] < 0 {
		return nil
	}
	d.opened[from] = x.open(int(x.received[from]), len(d.l.store.tables))
	return d.l.eachGrads(from, part, d.onKeep)
}

// store is the sink that stores gradients in a slot.
func (d *delivery) store(from, t int, keys []uint64, held []table.Row, grads []float32) {
	if of := d.opened[from]; of != nil {
		g := &of.tables[t]
		g.epoch = d.l.epoch[t]
		g.keys, g.held, g.values = append(g.keys, keys...), append(g.held, held...), append(g.values, grads...)
	}
}

// stagedSlots returns the slots whose gradients this rank holds, ascending.
func (x *Slots) stagedSlots() (all []int) {
	for _, of := range x.waiting {
		all = append(all, of.number)
	}
	return all
}

// Commit sums the gradients of the given slots in slot order, as if ranks 0, 1, … had
// pushed them; GradNormSq and Apply use the sum. It drops the other slots. If a slot is
// missing, it returns an error and changes nothing. It does not communicate: every rank
// must pass the same slots.
func (x *Slots) Commit(committed []int) error {
	s := x.store
	fault := func(format string, args ...any) error {
		return fmt.Errorf("sparse: commit: rank %d of %d: "+format, append([]any{s.rank, s.size}, args...)...)
	}
	s.pipeline.wait()
	order := slices.Clone(committed)
	slices.Sort(order)
	if len(slices.Compact(slices.Clone(order))) != len(order) {
		return fault("a slot is given twice in %v", committed)
	}
	for _, n := range order {
		if _, found := x.find(n); !found {
			return fault("slot %d is not staged, only %v are", n, x.stagedSlots())
		}
	}
	for _, n := range order {
		i, _ := x.find(n)
		for t := range s.tables {
			g := &x.waiting[i].tables[t]
			s.ids = resize(s.ids, len(g.keys))
			s.staged[t].add(g.keys, g.held, g.epoch, g.values, s.ids)
		}
	}
	x.clear()
	return nil
}

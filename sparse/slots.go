package sparse

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/sparse/table"
)

// Slot names a microbatch of a step, leased to some rank by some generation of the
// group. A slot below 0 is none.
type Slot struct {
	Generation, Step int64
	Slot             int
}

// StaleError says that a slot came too late: its generation is fenced or its step
// applied. Its microbatch must be computed again, as another slot.
type StaleError struct {
	Slot
	Fence   int64 // the generation that is current
	Applied int64 // the last step that was committed
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("slot %d of step %d in generation %d is stale: generation %d has committed step %d", e.Slot.Slot, e.Step, e.Generation, e.Fence, e.Applied)
}

// SlotGradients are those of distinct keys of one table: V values for each key.
type SlotGradients struct {
	Table  int
	Keys   []uint64
	Values []float32
}

// slots keeps gradients apart, by slot, until it is decided which count.
type slots struct {
	waiting []*slot // by step and slot
	free    []*slot
	fence   int64 // generations below are stale
	applied int64 // steps up to this one are stale
	tags    []int64
	heard   []int64
}

// slot is what one microbatch gives this owner.
type slot struct {
	Slot
	tables []slotTable
}

type slotTable struct {
	keys   []uint64
	held   []table.Row // as found in epoch
	epoch  uint64
	values []float32
}

// stale returns why a slot does not count any more, or nil.
func (x *slots) stale(at Slot) error {
	if at.Generation < x.fence || at.Step <= x.applied {
		return &StaleError{at, x.fence, x.applied}
	}
	return nil
}

func (x *slots) find(at Slot) (int, bool) {
	return slices.BinarySearchFunc(x.waiting, at, func(a *slot, b Slot) int {
		return cmp.Or(cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Slot.Slot, b.Slot))
	})
}

// open returns an empty slot for what arrives, nil if it is there already: the
// first copy counts.
func (x *slots) open(at Slot, tables int) *slot {
	i, found := x.find(at)
	if found {
		return nil
	}
	var of *slot
	if n := len(x.free); n > 0 {
		of, x.free = x.free[n-1], x.free[:n-1]
	} else {
		of = &slot{tables: make([]slotTable, tables)}
	}
	of.Slot = at
	for t := range of.tables {
		g := &of.tables[t]
		g.keys, g.held, g.values = g.keys[:0], g.held[:0], g.values[:0]
	}
	x.waiting = slices.Insert(x.waiting, i, of)
	return of
}

// drop forgets the slots for which gone is true.
func (x *slots) drop(gone func(Slot) bool) {
	kept := x.waiting[:0]
	for _, of := range x.waiting {
		if gone(of.Slot) {
			x.free = append(x.free, of)
		} else {
			kept = append(kept, of)
		}
	}
	clear(x.waiting[len(kept):])
	x.waiting = kept
}

func (x *slots) bytes() (n int64) {
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

// Stage keeps the gradients that a microbatch has for keys of this rank, apart
// from those of other slots, until Commit decides. It copies them and reports
// whether they are the slot's first copy; another one is ignored. It does not
// communicate. A [*StaleError] says that the slot does not count any more.
func (s *Store) Stage(at Slot, gradients []SlotGradients) (first bool, err error) {
	fault := func(err error) (bool, error) {
		return false, fmt.Errorf("sparse: stage: rank %d of %d: %w", s.rank, s.size, err)
	}
	if at.Slot < 0 {
		return fault(fmt.Errorf("slot %d: slots count from 0", at.Slot))
	}
	if err := s.slots.stale(at); err != nil {
		return fault(err)
	}
	for _, g := range gradients {
		if err := s.checkSlot(g); err != nil {
			return fault(err)
		}
	}
	of := s.slots.open(at, len(s.tables))
	if of == nil {
		return false, nil
	}
	s.settle()
	for _, g := range gradients {
		x := s.tables[g.Table]
		to := &of.tables[g.Table]
		n := len(to.keys)
		to.keys, to.values = append(to.keys, g.Keys...), append(to.values, g.Values...)
		to.held = slices.Grow(to.held, len(g.Keys))[:len(to.keys)]
		to.epoch = x.Epoch()
		if err := x.Find(to.keys[n:], to.held[n:]); err != nil {
			s.slots.drop(func(x Slot) bool { return x == at })
			return fault(err)
		}
	}
	return true, nil
}

func (s *Store) checkSlot(g SlotGradients) error {
	if g.Table < 0 || g.Table >= len(s.tables) {
		return fmt.Errorf("table %d: there are %d", g.Table, len(s.tables))
	}
	x := s.tables[g.Table]
	if want := len(g.Keys) * x.Width(); len(g.Values) != want {
		return fmt.Errorf("table %q: %d values for %d keys, want %d", s.name(g.Table), len(g.Values), len(g.Keys), want)
	}
	for _, key := range g.Keys {
		if owner := int(s.owner[x.ShardOf(key)]); owner != s.rank {
			return fmt.Errorf("table %q: rank %d owns key %d", s.name(g.Table), owner, key)
		}
	}
	return nil
}

// PushSlot is Push of a batch that is the microbatch of a slot: the owners keep
// its gradients apart, as Stage does. Every rank calls it; a slot below 0 stands
// for a rank without one, whose gradients are dropped. If the slot is stale, the
// rank that has it gets a [*StaleError], and the others go on.
func (s *Store) PushSlot(l *Lookup, at Slot) error {
	if err := s.mayPush(l); err != nil {
		return err
	}
	if s.hot.words() > 0 {
		return fmt.Errorf("sparse: push: rank %d of %d: there are hot keys, whose gradients are not staged by slot: open the store without HotKeys", s.rank, s.size)
	}
	l.state = pushed
	s.settle()
	if err := s.tell(at); err != nil {
		return fmt.Errorf("sparse: push: rank %d of %d: exchange of slots: %w", s.rank, s.size, err)
	}
	if err := s.exchangeGrads(l, &s.link, l.onSlots); err != nil {
		return err
	}
	if l.bagged != nil {
		if err := l.bagged.push(&s.link, false, l.onOpened); err != nil {
			return err
		}
	}
	if err := s.slots.stale(at); at.Slot >= 0 && err != nil {
		return fmt.Errorf("sparse: push: rank %d of %d: %w", s.rank, s.size, err)
	}
	return nil
}

// PushNone takes part in PushSlot for a rank whose gradients do not count. It
// neither reads nor changes them: another goroutine may still be computing on l,
// which must not be pulled into before that has ended.
func (s *Store) PushNone(l *Lookup) error {
	if err := s.mayPush(l); err != nil {
		return err
	}
	if err := s.tell(Slot{Slot: -1}); err != nil {
		return fmt.Errorf("sparse: push: rank %d of %d: exchange of slots: %w", s.rank, s.size, err)
	}
	total := 0
	for _, n := range l.want.gradBytes {
		total += n
	}
	s.nothing = resize(s.nothing, (total+7)/8)
	if err := s.sendGrads(l, &s.link, bytesOf(s.nothing)[:total], l.onSlots); err != nil || l.bagged == nil {
		return err
	}
	return l.bagged.push(&s.link, true, l.onOpened)
}

// tell exchanges which slot every rank has.
func (s *Store) tell(at Slot) error {
	x := &s.slots
	const words = 3
	x.tags, x.heard = resize(x.tags, words*s.size), resize(x.heard, words*s.size)
	for r := range s.size {
		copy(x.tags[words*r:], []int64{at.Generation, at.Step, int64(at.Slot)})
	}
	s.counters.CountBytesSent += int64(8 * words * (s.size - 1))
	return s.ex.AllToAll(x.tags, x.heard)
}

// takeSlot keeps the gradients of a rank under the slot that it told.
func (l *Lookup) takeSlot(from int, part []byte) error {
	s := l.store
	tag := s.slots.heard[3*from:]
	at := Slot{tag[0], tag[1], int(tag[2])}
	l.opened[from] = nil
	if at.Slot < 0 || s.slots.stale(at) != nil {
		return nil
	}
	l.opened[from] = s.slots.open(at, len(s.tables))
	return l.eachGrads(from, part, l.onOpened)
}

// keep is the sink of what may count later.
func (l *Lookup) keep(from, t int, keys []uint64, held []table.Row, grads []float32) {
	if of := l.opened[from]; of != nil {
		g := &of.tables[t]
		g.epoch = l.epoch[t]
		g.keys, g.held, g.values = append(g.keys, keys...), append(g.held, held...), append(g.values, grads...)
	}
}

// Staged lists the slots of a step whose gradients this rank has, ascending.
func (s *Store) Staged(generation, step int64) (all []int) {
	for _, of := range s.slots.waiting {
		if of.Generation == generation && of.Step == step {
			all = append(all, of.Slot.Slot)
		}
	}
	return all
}

// Commit adds up the gradients of the given slots of a step, in the order of
// slots, as if ranks 0, 1, … had pushed them: GradNormSq and Apply go on from
// there. The other slots of this step and earlier ones are discarded, and what
// comes for them is stale. If a slot is missing nothing changes. It does not
// communicate: every owner must be given the same slots.
func (s *Store) Commit(generation, step int64, committed []int) error {
	fault := func(format string, args ...any) error {
		return fmt.Errorf("sparse: commit: step %d: rank %d of %d: "+format, append([]any{step, s.rank, s.size}, args...)...)
	}
	if err := s.slots.stale(Slot{generation, step, 0}); err != nil {
		return fault("%w", err)
	}
	s.settle()
	order := slices.Sorted(slices.Values(committed))
	if len(slices.Compact(slices.Clone(order))) != len(order) {
		return fault("a slot is given twice in %v", committed)
	}
	for _, n := range order {
		if _, found := s.slots.find(Slot{generation, step, n}); !found {
			return fault("slot %d is not staged, only %v are", n, s.Staged(generation, step))
		}
	}
	for _, n := range order {
		i, _ := s.slots.find(Slot{generation, step, n})
		for t := range s.tables {
			g := &s.slots.waiting[i].tables[t]
			s.ids = resize(s.ids, len(g.keys))
			s.staged[t].add(g.keys, g.held, g.epoch, g.values, s.ids)
		}
	}
	s.slots.applied = step
	s.slots.drop(func(x Slot) bool { return x.Step <= step })
	return nil
}

// Discard forgets the staged slots of a step.
func (s *Store) Discard(generation, step int64) {
	s.slots.drop(func(x Slot) bool { return x.Generation == generation && x.Step == step })
}

// Fence makes every earlier generation stale and forgets its slots. Steps may be
// committed again from applied+1 on: a group that has gone back to a checkpoint
// says so.
func (s *Store) Fence(generation, applied int64) {
	s.slots.fence, s.slots.applied = generation, applied
	s.slots.drop(func(x Slot) bool { return x.Generation < generation || x.Step <= applied })
}

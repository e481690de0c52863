package sparse

import (
	"fmt"
)

// link is an Exchanger with what more it can do.
type link struct {
	ex    Exchanger
	visit Visitor
	alloc Allocator // nil if it has no memory to share
}

func newLink(ex Exchanger) link {
	alloc, _ := ex.(Allocator)
	return link{ex, visitor(ex), alloc}
}

// ahead is the goroutine that prepares batches and pushes them.
type ahead struct {
	link
	work chan func()
	done chan struct{}
	busy int   // pieces of work that were not waited for
	err  error // of a push

	pushing bool // a push was begun and no Apply has waited for it
}

// start hands over a piece of work. One of either kind can be under way.
func (a *ahead) start(work func()) {
	a.busy++
	a.work <- work
}

// Ahead lets Prepare work on the side, by a goroutine of its own that exchanges
// over ex: the same ranks as those of the store, on another channel. Close ends
// it. Without Ahead, Prepare does its work before it returns. Every rank decides
// alike.
func (s *Store) Ahead(ex Exchanger) error {
	switch {
	case s.ahead != nil:
		return fmt.Errorf("sparse: ahead: rank %d of %d: it was called before", s.rank, s.size)
	case ex == nil || ex.Rank() != s.rank || ex.Size() != s.size:
		return fmt.Errorf("sparse: ahead: rank %d of %d: give an Exchanger of the same ranks, have %v", s.rank, s.size, ex)
	}
	const kinds = 2 // of work: a batch to prepare, one to push
	a := &ahead{link: newLink(ex), work: make(chan func(), kinds), done: make(chan struct{}, kinds)}
	s.ahead = a
	go func() {
		for work := range a.work {
			work()
			a.done <- struct{}{}
		}
		close(a.done)
	}()
	return nil
}

// Prepare begins what Pull does and Complete ends it; every rank calls both.
// While the batch before is computed, pushed and applied, the keys of this one
// are made unique and sent to their owners, and the owners answer with the rows
// that no batch in flight will change. So the rows are those that Pull would
// have brought at the time of Complete, to the bit. Without Ahead the owners learn
// the keys before Prepare returns and answer when it is completed. Either way a
// table with a tier begins to read those of their rows that are on disk.
//
// bags must not change until Complete returns. Only one batch can be prepared at
// a time, and no other be pulled with insert until it is completed.
func (s *Store) Prepare(l *Lookup, bags []Bags, insert bool) error {
	if s.waiting != nil {
		return fmt.Errorf("sparse: prepare: rank %d of %d: the batch of pull %d is prepared: Complete it first", s.rank, s.size, s.waiting.number)
	}
	if err := s.begin("prepare", l, insert); err != nil {
		return err
	}
	s.waiting, l.state, l.batch = l, prepared, bags
	if s.ahead == nil {
		l.early = false
		if l.err = l.ask(&s.link, bags); l.err == nil {
			l.readAhead()
		}
		return nil
	}
	l.early = s.early
	s.ahead.start(l.onPrepare)
	return nil
}

// Complete ends what Prepare began: then the Lookup is as after Pull.
func (s *Store) Complete(l *Lookup) error {
	if s.waiting != l {
		return fmt.Errorf("sparse: complete: rank %d of %d: the batch was not prepared", s.rank, s.size)
	}
	s.settle()
	s.waiting, l.batch = nil, nil
	err := l.err
	if err == nil && l.generation == s.generation {
		err = l.rest()
	}
	return s.end("complete", l, err)
}

// stop ends the goroutine of Ahead.
func (s *Store) stop() {
	if s.ahead != nil {
		s.settle()
		close(s.ahead.work)
		<-s.ahead.done
		s.ahead = nil
	}
}

// settle waits until the goroutine of Ahead touches no table.
func (s *Store) settle() {
	if s.ahead == nil {
		return
	}
	for ; s.ahead.busy > 0; s.ahead.busy-- {
		<-s.ahead.done
	}
}

// PushBeside is Push by the goroutine of Ahead, while the caller does other work until
// GradNormSq or Apply, which wait for it, such as the allreduce of dense
// gradients. It goes behind what Prepare has begun. The Lookup must not be used
// before Apply, which returns an error of the push. Without Ahead it is Push.
func (s *Store) PushBeside(l *Lookup) error {
	if s.ahead == nil {
		return s.Push(l)
	}
	if err := s.mayPush(l); err != nil {
		return err
	}
	s.ahead.pushing = true
	l.state = pushed
	s.ahead.start(l.onPush)
	return nil
}

// endPush waits for a push in the background and returns its error.
func (s *Store) endPush() error {
	s.settle()
	if s.ahead == nil {
		return nil
	}
	err := s.ahead.err
	s.ahead.pushing, s.ahead.err = false, nil
	return err
}

// prepare is what the goroutine of Ahead does with a batch.
func (l *Lookup) prepare(k *link) error {
	if err := l.ask(k, l.batch); err != nil {
		return err
	}
	if l.readAhead(); !l.early {
		return nil
	}
	if err := l.mark(); err != nil {
		return err
	}
	if err := k.visit.AllToAllVisit(l.give.marks, l.give.markBytes, l.want.markBytes, l.onMarks); err != nil {
		return fmt.Errorf("exchange of marks: %w", err)
	}
	l.tally.MarkBytesSent += int64(len(l.give.marks))
	l.tally.MarkBytesReceived += int64(len(l.want.marks))
	return l.exchangeRows(k, early)
}

// readAhead has tables begin to read what of the batch they keep on disk.
func (l *Lookup) readAhead() {
	s := l.store
	for t, x := range s.tables {
		if !x.Cold() {
			continue
		}
		l.coming = l.coming[:0]
		for r := range s.size {
			keys, _ := l.section(r, t)
			l.coming = append(l.coming, keys...)
			if s.how[t] == Pooled {
				pooled := &l.bagged.asked[r]
				each(pooled.counts, func(_, of, _, lo, hi int) {
					if of == t {
						l.coming = append(l.coming, pooled.keys[lo:hi]...)
					}
				})
			}
		}
		x.Prefetch(l.coming)
	}
}

// mark marks the keys whose rows will not change before Complete: those of tables in
// which a step changes the rows of its keys alone, and that no batch in flight has. One
// that is not held has no row then either.
func (l *Lookup) mark() error {
	s := l.store
	for _, x := range s.flying {
		x.index()
	}
	for t, x := range s.tables {
		l.epoch[t] = x.Epoch()
	}
	clear(l.give.marks)
	for r := range s.size {
		if r == s.rank {
			continue
		}
		i := 0
		for t, x := range s.tables {
			keys, held := l.section(r, t)
			if err := x.Find(keys, held); err != nil {
				return err
			}
			for _, key := range keys {
				if s.still[t] && !s.inFlight(t, key) {
					l.give.marks[l.give.markAt[r]+i/8] |= 1 << (i % 8)
				}
				i++
			}
		}
	}
	return nil
}

func (s *Store) inFlight(t int, key uint64) bool {
	for _, x := range s.flying {
		if x.asked[t].Has(key) {
			return true
		}
	}
	return false
}

// index fills asked.
func (l *Lookup) index() {
	if l.indexed {
		return
	}
	l.indexed = true
	for t := range l.asked {
		l.asked[t].Reset()
		for r := range l.store.size {
			keys, _ := l.section(r, t)
			l.picked.ids = resize(l.picked.ids, len(keys))
			l.asked[t].Add(keys, l.picked.ids)
		}
	}
}

func (l *Lookup) takeMarks(from int, part []byte) error {
	copy(l.want.marks[l.want.markAt[from]:], part)
	return nil
}

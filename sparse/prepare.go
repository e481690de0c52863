package sparse

import "fmt"

// prepare makes the part of Prepare that runs in the goroutine of a Pipeline.
func (l *pull) prepare(k *link, bags []Bags) error {
	if err := l.sendKeys(k, bags); err != nil {
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

// readAhead starts to read the rows of the batch that are on disk.
func (l *pull) readAhead() {
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

// mark marks the keys whose rows will not change before Complete. They are in tables whose
// steps only change the rows of their keys, and in no batch in flight. A marked key without
// a row has none at Complete either.
func (l *pull) mark() error {
	s := l.store
	for t, x := range s.tables {
		l.epoch[t] = x.Epoch()
	}
	clear(l.give.marks)
	for t, x := range s.tables { // by table, since all sets of a Lookup may share slots
		for r := range s.size {
			if r == s.rank {
				continue
			}
			keys, held := l.section(r, t)
			if err := x.Find(keys, held); err != nil {
				return err
			}
			i := l.give.at[r*len(s.tables)+t] - l.give.at[r*len(s.tables)]
			for _, key := range keys {
				if s.still[t] && !anyHas(s.inFlight, t, key) {
					l.give.marks[l.give.markAt[r]+i/8] |= 1 << (i % 8)
				}
				i++
			}
		}
	}
	return nil
}

// anyHas reports whether a batch in lookups has a key of table t.
func anyHas(lookups []*Lookup, t int, key uint64) bool {
	for _, x := range lookups {
		if x.asked[t].Has(key) {
			return true
		}
	}
	return false
}

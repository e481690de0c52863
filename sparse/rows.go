package sparse

import (
	"fmt"
	"math/bits"

	"github.com/wdlrun/wdlrun/sparse/table"
)

const (
	all   phase = iota
	early       // the marked ones
	late        // the others
)

// marked reports whether the i-th key of a rank is marked.
func (d *side) marked(rank, i int) bool { return d.marks[d.markAt[rank]+i/8]>>(i%8)&1 == 1 }

// picks reports whether the row of the i-th key of a rank is sent in a phase.
func (d *side) picks(p phase, rank, i int) bool {
	return p == all || d.marked(rank, i) == (p == early)
}

// count returns the number of keys of a section whose rows are sent in a phase.
func (d *side) count(p phase, rank, section, first int) int {
	lo, hi := d.at[section]-first, d.at[section+1]-first
	if p == all {
		return hi - lo
	}
	n := 0
	for i := lo; i < hi; i++ {
		if i%8 == 0 && i+8 <= hi {
			n += bits.OnesCount8(d.marks[d.markAt[rank]+i/8])
			i += 7
			continue
		}
		if d.marked(rank, i) {
			n++
		}
	}
	if p == late {
		n = hi - lo - n
	}
	return n
}

// layoutRows sets rowBytes for a phase and returns their sum. A rank reads its own rows
// without an exchange.
func (d *side) layoutRows(s *Store, p phase) (sum int) {
	tables := len(s.tables)
	for r := range d.rowBytes {
		d.rowBytes[r] = 0
		if r == s.rank {
			continue
		}
		for t, x := range s.tables {
			section := r*tables + t
			d.rowBytes[r] += s.wire[t].Rows.section(d.count(p, r, section, d.at[r*tables]) * x.Width())
		}
		sum += d.rowBytes[r]
	}
	return sum
}

// exchangeRows sends the rows that the peers request and receives this rank's.
func (l *pull) exchangeRows(k *link, p phase) error {
	l.phase = p
	n := l.give.layoutRows(l.store, p)
	wire := l.send.rows.take(n)
	if err := l.answer(wire); err != nil {
		return err
	}
	m := l.want.layoutRows(l.store, p)
	if err := k.visit.AllToAllVisit(wire, l.give.rowBytes, l.want.rowBytes, l.onRows); err != nil {
		return fmt.Errorf("exchange of rows: %w", err)
	}
	l.tally.RowBytesSent += int64(n)
	l.tally.RowBytesReceived += int64(m)
	return nil
}

// answer writes the rows that the peers requested. It records which of them are held, for
// the gradients to come.
func (l *pull) answer(wire []byte) error {
	s := l.store
	for t, x := range s.tables {
		l.foundIn[t], l.epoch[t] = l.epoch[t], x.Epoch()
	}
	if l.phase == all && s.size > 1 {
		if err := s.workers.all(false, l.onFind); err != nil {
			return err
		}
	}
	for r := range s.size {
		if r == s.rank {
			continue
		}
		for t, x := range s.tables {
			keys, held, err := l.pick(r, t)
			if err != nil {
				return err
			}
			n := s.wire[t].Rows.section(len(keys) * x.Width())
			l.write(wire[:n], t, keys, held)
			wire = wire[n:]
		}
	}
	return nil
}

// pick returns the keys of a section whose rows are sent in this phase, and the rows. If all
// are sent, findTables has found them. Rows sent early were found when they were marked.
// Others are found now, as are all rows if the table has moved rows since. The result is
// valid until the next pick.
func (l *pull) pick(rank, t int) ([]uint64, []table.Row, error) {
	x := l.store.tables[t]
	keys, held := l.section(rank, t)
	if l.phase == all {
		return keys, held, nil
	}
	first := l.give.at[rank*len(l.store.tables)]
	at := l.give.at[rank*len(l.store.tables)+t] - first
	some := &l.picked
	some.keys, some.held = some.keys[:0], some.held[:0]
	for i, key := range keys {
		if l.give.picks(l.phase, rank, at+i) {
			some.keys, some.held = append(some.keys, key), append(some.held, held[i])
		}
	}
	if l.phase == early && x.Epoch() == l.foundIn[t] {
		return some.keys, some.held, nil
	}
	if err := x.Find(some.keys, some.held); err != nil {
		return nil, nil, err
	}
	n := 0
	for i := range keys {
		switch {
		case l.give.picks(l.phase, rank, at+i):
			held[i] = some.held[n]
			n++
		case x.Epoch() != l.foundIn[t]:
			held[i] = 0 // it may have moved since it was marked: Apply finds it
		}
	}
	return some.keys, some.held, nil
}

// write encodes rows. Rows that are sent in their stored format are read directly into
// wire.
func (l *pull) write(wire []byte, t int, keys []uint64, held []table.Row) {
	x, p := l.store.tables[t], l.store.wire[t].Rows
	n := len(keys) * x.Width()
	if p == FP32 {
		x.Read(l.fresh(t, keys), held, floatsOf(wire), x.Width())
		return
	}
	l.floats = resize(l.floats, n)
	x.Read(l.fresh(t, keys), held, l.floats, x.Width())
	p.encode(wire, l.floats)
}

// receiveRows stores the rows that an owner sent.
func (l *pull) receiveRows(from int, part []byte) error {
	s := l.store
	if from == s.rank {
		return nil
	}
	tables, first := len(s.tables), l.want.at[from*len(s.tables)]
	for t, x := range s.tables {
		section, width, p := from*tables+t, x.Width(), s.wire[t].Rows
		rows := l.rows[l.rowAt[section]:l.rowAt[section+1]]
		n := l.want.count(l.phase, from, section, first) * width
		wire := part[:p.section(n)]
		part = part[len(wire):]
		if l.phase == all {
			p.decode(rows, wire)
			continue
		}
		at := l.want.at[section] - first
		for i := 0; len(rows) > 0; i, rows = i+1, rows[width:] {
			if l.want.picks(l.phase, from, at+i) {
				p.decode(rows[:width], wire)
				wire = wire[p.bytes()*width:]
			}
		}
	}
	return nil
}

// fresh returns the keys that read as their initial rows if they have none: all keys of a
// training batch, unless the table first counts occurrences.
func (l *pull) fresh(t int, keys []uint64) []uint64 {
	if !l.insert || l.store.cfg.Tables[t].Admit.After > 1 {
		return nil
	}
	return keys
}

// section returns the keys that rank requests of a table of this owner, and their rows.
func (l *pull) section(rank, t int) ([]uint64, []table.Row) {
	i := rank*len(l.store.tables) + t
	lo, hi := l.give.at[i], l.give.at[i+1]
	return l.give.keys[lo:hi], l.held[lo:hi]
}

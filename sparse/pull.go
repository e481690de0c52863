package sparse

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/raw"
)

// announceWords precede the counts that a Pull sends to each peer: the
// fingerprint of the configuration, and the number of the Pull with its kind.
const announceWords = 2

// Pull fetches the rows of a batch; every rank calls it. Rows are as the last
// Apply left them, and a key that is not held gives its initial row. With insert
// the batch can be pushed, and its keys are inserted by the Apply after that;
// without, nothing anywhere changes. bags may be used again once Pull returns.
//
// What the Lookup held before is dropped, and gradients start from zero.
func (s *Store) Pull(l *Lookup, bags []Bags, insert bool) error {
	if l.store != s {
		panic("sparse: Pull: the Lookup belongs to another Store")
	}
	l.state = idle
	s.pulls++
	if err := s.pull(l, bags, insert); err != nil {
		return fmt.Errorf("sparse: pull %d: rank %d of %d: %w", s.pulls, s.rank, s.size, err)
	}
	l.generation = s.generation
	l.state = reading
	if insert {
		l.state = training
		l.grads = resize(l.grads, len(l.want.rows))
		clear(l.grads)
	}
	return nil
}

func (s *Store) pull(l *Lookup, bags []Bags, insert bool) error {
	if err := l.take(bags); err != nil {
		return err
	}
	if err := l.partition(); err != nil {
		return err
	}
	if err := s.announce(l, insert); err != nil {
		return err
	}
	if err := s.ex.AllToAllV(raw.Bytes(l.want.keys), l.want.keyBytes, raw.Bytes(l.give.keys), l.give.keyBytes); err != nil {
		return fmt.Errorf("exchange of keys: %w", err)
	}
	if err := l.answer(); err != nil {
		return err
	}
	if err := s.ex.AllToAllV(raw.Bytes(l.give.rows), l.give.rowBytes, raw.Bytes(l.want.rows), l.want.rowBytes); err != nil {
		return fmt.Errorf("exchange of rows: %w", err)
	}
	for r := range s.size {
		if r == s.rank {
			continue
		}
		s.counters.RemoteUniqueKeys += int64(l.want.keyBytes[r] / 8)
		s.counters.KeyBytesSent += int64(l.want.keyBytes[r])
		s.counters.KeyBytesReceived += int64(l.give.keyBytes[r])
		s.counters.RowBytesSent += int64(l.give.rowBytes[r])
		s.counters.RowBytesReceived += int64(l.want.rowBytes[r])
	}
	return nil
}

// take checks the bags, copies what backward will need of them and numbers the
// distinct keys of each table.
func (l *Lookup) take(bags []Bags) error {
	s := l.store
	values, offsets, coefs := 0, 0, 0
	for f := range bags {
		b := &bags[f]
		if err := b.check(len(s.tables)); err != nil {
			return fmt.Errorf("feature %d%s: %w", f, s.tableName(b.Table), err)
		}
		values += len(b.Values)
		offsets += len(b.Offsets)
		if !b.plain() {
			coefs += len(b.Values)
		}
	}
	l.offsets, l.at, l.coefs = resize(l.offsets, offsets), resize(l.at, values), resize(l.coefs, coefs)
	l.features = resize(l.features, len(bags))
	for t := range l.sets {
		l.sets[t].Reset()
	}
	values, offsets, coefs = 0, 0, 0
	for f := range bags {
		b, x := &bags[f], &l.features[f]
		n := len(b.Values)
		*x = feature{table: b.Table, offsets: l.offsets[offsets : offsets+len(b.Offsets)], at: l.at[values : values+n]}
		copy(x.offsets, b.Offsets)
		if !b.plain() {
			x.coefs = l.coefs[coefs : coefs+n]
			b.coefficients(x.coefs)
			coefs += n
		}
		l.sets[b.Table].Add(b.Values, x.at)
		values += n
		offsets += len(b.Offsets)
	}
	s.counters.KeysPulled += int64(values)
	return nil
}

func (s *Store) tableName(t int) string {
	if t < 0 || t >= len(s.tables) {
		return ""
	}
	return fmt.Sprintf(" (table %q)", s.name(t))
}

// partition puts the unique keys in sections by owner and table, in order of
// first sight within each, and turns the values' numbers into places of rows.
func (l *Lookup) partition() error {
	s := l.store
	for t := range s.tables {
		s.counters.UniqueKeys += int64(l.sets[t].Len())
		for owner, n := range l.sets[t].Counts() {
			l.want.counts[owner*len(s.tables)+t] = int64(n)
		}
	}
	if err := l.want.layout(s.tables); err != nil {
		return err
	}
	for r := range s.size {
		if n := l.want.keyBytes[r] / 8; n > s.cfg.MaxKeysPerExchange {
			return fmt.Errorf("the batch has %d keys of rank %d, at most %d are allowed: make the batch smaller or raise MaxKeysPerExchange", n, r, s.cfg.MaxKeysPerExchange)
		}
	}
	var at cursor
	for i, n := range l.want.counts {
		l.next[i] = at
		at.key += int(n)
		at.row += int(n) * s.tables[i%len(s.tables)].Width()
	}
	for t, x := range s.tables {
		keys, owners := l.sets[t].Keys(), l.sets[t].Owners()
		l.place[t] = resize(l.place[t], len(keys))
		for id, key := range keys {
			c := &l.next[int(owners[id])*len(s.tables)+t]
			l.want.keys[c.key] = key
			l.place[t][id] = uint32(c.row)
			c.key++
			c.row += x.Width()
		}
	}
	for f := range l.features {
		x := &l.features[f]
		place := l.place[x.table]
		for i, id := range x.at {
			x.at[i] = place[id]
		}
	}
	return nil
}

// announce exchanges the counts and makes room for what the peers will ask.
func (s *Store) announce(l *Lookup, insert bool) error {
	tables := len(s.tables)
	words := announceWords + tables
	call := s.pulls << 1
	if insert {
		call |= 1
	}
	for r := range s.size {
		a := l.announce[r*words : (r+1)*words]
		a[0], a[1] = int64(s.print), call
		copy(a[announceWords:], l.want.counts[r*tables:])
	}
	if err := s.ex.AllToAll(l.announce, l.announced); err != nil {
		return fmt.Errorf("exchange of counts: %w", err)
	}
	s.counters.CountBytesSent += int64(8 * words * (s.size - 1))
	for r := range s.size {
		a := l.announced[r*words : (r+1)*words]
		if uint64(a[0]) != s.print {
			return fmt.Errorf("rank %d has another configuration (fingerprint %016x, here %016x): open every rank with the same Config", r, uint64(a[0]), s.print)
		}
		if a[1] != call {
			return fmt.Errorf("rank %d is at pull %d with insert=%t, this rank at pull %d with insert=%t: every rank must make the same calls in the same order", r, a[1]>>1, a[1]&1 == 1, s.pulls, insert)
		}
		var sum int64
		for t, n := range a[announceWords:] {
			if n < 0 || n > int64(s.cfg.MaxKeysPerExchange) {
				return fmt.Errorf("rank %d announces %d keys of table %q, 0 to %d are allowed", r, n, s.name(t), s.cfg.MaxKeysPerExchange)
			}
			l.give.counts[r*tables+t] = n
			sum += n
		}
		if sum > int64(s.cfg.MaxKeysPerExchange) {
			return fmt.Errorf("rank %d announces %d keys, at most %d are allowed: make its batch smaller or raise MaxKeysPerExchange", r, sum, s.cfg.MaxKeysPerExchange)
		}
	}
	return l.give.layout(s.tables)
}

// answer fills the rows that the peers asked of this owner, and remembers which
// of them it holds for the gradients to come.
func (l *Lookup) answer() error {
	tables := l.store.tables
	l.held = resize(l.held, len(l.give.keys))
	k, w := 0, 0
	for i, count := range l.give.counts {
		t, n := tables[i%len(tables)], int(count)
		keys, held := l.give.keys[k:k+n], l.held[k:k+n]
		if err := t.Find(keys, held); err != nil {
			return err
		}
		t.Read(keys, held, l.give.rows[w:w+n*t.Width()], t.Width())
		k, w = k+n, w+n*t.Width()
	}
	return nil
}

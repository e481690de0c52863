package sparse

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// Copies holds the rows of Replicated tables on every rank. A rank reads its own copy.
// One rank per key, its home, sums the gradients in rank order, and every rank takes
// the same optimizer step with the sum. Homes are spread evenly over the ranks.
//
// Rows of other ranks' shards are excluded from checkpoints and norms.
type Copies struct {
	store  *Store
	sets   []*table.Set // by table: the copied keys, numbered
	wordAt []int        // by table, plus the end: index of its first word of bits
	sums   [][]float32  // by table: sums of the keys with home here, at number/P
	seen   []uint64     // bits: sums that have started
	union  []uint64     // bits: keys that any rank has touched

	foreign         []int     // by table: number of rows that other ranks own
	guests          []*staged // by table: gradients of rows that another rank owns
	sent, got       []int     // bytes by rank
	wire            sendBuffer
	onReduce, onSum func(from int, part []byte) error
	lookup          *Lookup // the Lookup being pushed
}

// words returns the number of words of bits of all tables.
func (h *Copies) words() int { return h.wordAt[len(h.wordAt)-1] }

// place assigns the tables their words of bits.
func (h *Copies) place() {
	for t, set := range h.sets {
		h.wordAt[t+1] = h.wordAt[t] + (set.Len()+63)/64
	}
	h.seen, h.union = make([]uint64, h.words()), make([]uint64, h.words())
}

// Copies returns the calls for Replicated tables.
func (s *Store) Copies() *Copies { return &s.copies }

// each calls f for every key whose bit is set and whose home is the given rank, by table
// and number.
func (h *Copies) each(set []uint64, home int, f func(t, i int)) {
	for t := range h.sets {
		for w := h.wordAt[t]; w < h.wordAt[t+1]; w++ {
			for b := set[w]; b != 0; b &= b - 1 {
				if i := 64*(w-h.wordAt[t]) + bits.TrailingZeros64(b); i%h.store.size == home {
					f(t, i)
				}
			}
		}
	}
}

// tableKey identifies a key of a table.
type tableKey struct {
	table int
	key   uint64
}

// Any reports whether there are Replicated tables and more than one rank.
func (h *Copies) Any() bool { return h.store.size > 1 && slices.Contains(h.store.how, Replicated) }

// Refresh copies the rows of Replicated tables to every rank, at most 2²⁰ per table,
// and returns the number of rows that all ranks now hold. Rows inserted later are read
// from their owners until the next Refresh. No row is copied before the first Refresh
// or after Reset.
//
// Every rank calls it between Apply and the next Pull or Prepare. Lookups pulled before
// cannot be pushed. Any number of calls gives the same results, to the bit, if each
// Push has its Apply.
func (h *Copies) Refresh() (n int, err error) {
	s := h.store
	fault := func(err error) (int, error) {
		return 0, fmt.Errorf("sparse: copy replicated rows: rank %d of %d: %w", s.rank, s.size, err)
	}
	if !h.Any() {
		return 0, nil
	}
	s.pipeline.wait()
	if s.pipeline.waiting != nil || slices.ContainsFunc(s.staged, func(g *staged) bool { return g.set.Len() > 0 }) {
		return fault(errors.New("a batch is prepared, or gradients wait: call it between Apply and the next batch"))
	}
	all, err := h.list()
	if err != nil {
		return fault(err)
	}
	if err := h.install(all); err != nil {
		return fault(err)
	}
	return len(all), nil
}

// list returns the keys that owners hold of Replicated tables, at most 2²⁰ of each, by
// table, owner and shard.
func (h *Copies) list() (all []tableKey, err error) {
	s := h.store
	counts, received := make([]int64, s.size), make([]int64, s.size)
	for t, x := range s.tables {
		if s.how[t] != Replicated {
			continue
		}
		var own []uint64
		for shard := range x.Shards() {
			if int(s.shards.owner[shard]) != s.rank {
				continue
			}
			keep := func(key uint64, _ []float32) error { own = append(own, key); return nil }
			if err := x.Each(shard, keep); err != nil {
				return nil, err
			}
		}
		own = own[:min(len(own), maxReplicated)]
		for r := range counts {
			counts[r] = int64(len(own))
		}
		if err := s.ex.AllToAll(counts, received); err != nil {
			return nil, fmt.Errorf("table %q: exchange of counts: %w", s.name(t), err)
		}
		send, recv := make([]int, s.size), make([]int, s.size)
		for r, n := range received {
			if n < 0 || n > maxReplicated {
				return nil, fmt.Errorf("table %q: rank %d announces %d rows, at most %d are possible", s.name(t), r, n, maxReplicated)
			}
			send[r], recv[r] = 8*len(own), 8*int(n)
		}
		first := len(all)
		err := s.visit.AllToAllVisit(slices.Repeat(bytesOf(own), s.size), send, recv, func(from int, part []byte) error {
			for _, key := range wordsOf(part) {
				if int(s.shards.owner[x.ShardOf(key)]) != from {
					return fmt.Errorf("rank %d announces key %d, which it does not own", from, key)
				}
				all = append(all, tableKey{table: t, key: key})
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("table %q: exchange of keys: %w", s.name(t), err)
		}
		all = all[:min(len(all), first+maxReplicated)]
	}
	return all, nil
}

// install replaces the set of copied keys by all. Owners send the new rows, and guests that
// are no longer copied are deleted.
func (h *Copies) install(all []tableKey) error {
	s := h.store
	was := h.sets
	h.sets = nil
	for _, x := range s.tables {
		h.sets = append(h.sets, table.NewSet(x.Salt(), nil, 1))
	}
	var fresh []tableKey
	id := make([]uint32, 1)
	for _, c := range all {
		h.sets[c.table].Add([]uint64{c.key}, id)
		if !was[c.table].Has(c.key) {
			fresh = append(fresh, c)
		}
	}
	for t, x := range s.tables {
		for _, key := range was[t].Keys() {
			if int(s.shards.owner[x.ShardOf(key)]) != s.rank && !h.sets[t].Has(key) {
				x.Delete([]uint64{key})
			}
		}
		h.foreign[t] = 0
		for _, key := range h.sets[t].Keys() {
			if int(s.shards.owner[x.ShardOf(key)]) != s.rank {
				h.foreign[t]++
			}
		}
		h.sums[t] = make([]float32, (h.sets[t].Len()+s.size-1)/s.size*x.Width())
	}
	h.place()
	s.generation++
	s.print = s.fingerprint()
	return h.fetch(fresh)
}

// fetch sends the records of newly copied keys from their owners to all ranks.
func (h *Copies) fetch(fresh []tableKey) error {
	s := h.store
	owner := func(c tableKey) int { return int(s.shards.owner[s.tables[c.table].ShardOf(c.key)]) }
	var part []byte
	recv := make([]int, s.size)
	for _, c := range fresh {
		x, r := s.tables[c.table], owner(c)
		recv[r] += 4 * x.RecordLen()
		if r == s.rank {
			record := make([]float32, x.RecordLen())
			if _, err := x.Get(c.key, record); err != nil {
				return err
			}
			part = append(part, raw.Bytes(record)...)
		}
	}
	send := slices.Repeat([]int{len(part)}, s.size)
	err := s.visit.AllToAllVisit(slices.Repeat(part, s.size), send, recv, func(from int, b []byte) error {
		for _, c := range fresh {
			x := s.tables[c.table]
			if from == s.rank || owner(c) != from {
				continue
			}
			if err := x.Put(c.key, raw.Of[float32](b[:4*x.RecordLen()])); err != nil {
				return err
			}
			b = b[4*x.RecordLen():]
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("exchange of rows: %w", err)
	}
	for r, n := range recv {
		if r != s.rank {
			s.counters.CopyBytesReceived += int64(n)
			s.counters.CopyBytesSent += int64(len(part))
		}
	}
	return nil
}

// hash adds the copied keys to a fingerprint.
func (h *Copies) hash(w io.Writer) {
	for _, set := range h.sets {
		fmt.Fprint(w, set.Len(), " ")
		w.Write(raw.Bytes(set.Keys()))
	}
}

// exchange sums the gradients of copied keys at their homes, in rank order, and sends every
// rank the sums.
func (h *Copies) exchange(l *Lookup, k *link) error {
	s := h.store
	if h.words() == 0 {
		return nil
	}
	h.lookup = l
	clear(h.seen)
	clear(h.union)
	for r := range s.size {
		for w, b := range l.received(r) {
			h.union[w] |= b
		}
	}
	if err := h.reduce(l, k); err != nil {
		return fmt.Errorf("sparse: push: rank %d of %d: sums of copied keys: %w", s.rank, s.size, err)
	}
	if err := h.spread(k); err != nil {
		return fmt.Errorf("sparse: push: rank %d of %d: sums of copied keys: %w", s.rank, s.size, err)
	}
	return nil
}

// gradBytes returns the size of a row's gradient on the wire.
func (s *Store) gradBytes(t int) int { return s.wire[t].Gradients.section(s.tables[t].Width()) }

// reduce sends this rank's gradients to the homes of their keys.
func (h *Copies) reduce(l *Lookup, k *link) error {
	s := h.store
	total := 0
	for r := range s.size {
		h.sent[r], h.got[r] = 0, 0
		h.each(l.touched, r, func(t, _ int) { h.sent[r] += s.gradBytes(t) })
		h.each(l.received(r), s.rank, func(t, _ int) {
			h.got[r] += s.gradBytes(t)
			if r != s.rank {
				s.shards.carried[t] += int64(s.gradBytes(t))
			}
		})
		total += h.sent[r]
	}
	wire := h.wire.take(total)
	to := wire
	for r := range s.size {
		h.each(l.touched, r, func(t, i int) {
			at, width := l.copyAt[t][i], s.tables[t].Width()
			s.wire[t].Gradients.encode(to, l.grads[at:int(at)+width])
			to = to[s.gradBytes(t):]
		})
	}
	return h.count(k.visit.AllToAllVisit(wire, h.sent, h.got, h.onReduce))
}

// count counts the bytes of an exchange unless it failed.
func (h *Copies) count(err error) error {
	s := h.store
	for r := range s.size {
		if r != s.rank && err == nil {
			s.counters.CopyBytesSent += int64(h.sent[r])
			s.counters.CopyBytesReceived += int64(h.got[r])
		}
	}
	return err
}

// takeReduce adds a rank's gradients to the sums. It is called for ranks in order.
func (h *Copies) takeReduce(from int, part []byte) error {
	s := h.store
	h.each(h.lookup.received(from), s.rank, func(t, i int) {
		width := s.tables[t].Width()
		sum := h.sums[t][i/s.size*width:][:width]
		grad := h.lookup.decoded(s.wire[t].Gradients, part[:s.gradBytes(t)], width)
		part = part[s.gradBytes(t):]
		w, b := h.wordAt[t]+i/64, uint64(1)<<(i%64)
		if h.seen[w]&b == 0 {
			h.seen[w] |= b
			copy(sum, grad)
			return
		}
		addTo(sum, grad)
	})
	return nil
}

// spread sends the sums of this home to all ranks.
func (h *Copies) spread(k *link) error {
	s := h.store
	for r := range s.size {
		h.got[r] = 0
		h.each(h.union, r, func(t, _ int) { h.got[r] += 4 * s.tables[t].Width() })
	}
	n := h.got[s.rank]
	wire := h.wire.take(n * s.size)
	to := wire
	h.each(h.union, s.rank, func(t, i int) {
		width := s.tables[t].Width()
		s.shards.carried[t] += int64(4 * width * (s.size - 1))
		to = to[copy(to, raw.Bytes(h.sums[t][i/s.size*width:][:width])):]
	})
	for r := range s.size {
		h.sent[r] = n
		copy(wire[r*n:], wire[:n])
	}
	return h.count(k.visit.AllToAllVisit(wire, h.sent, h.got, h.onSum))
}

// takeSum stages the sums of a home: for owned rows like pushed gradients, for other rows
// separately.
func (h *Copies) takeSum(from int, part []byte) error {
	s := h.store
	h.each(h.union, from, func(t, i int) {
		x, key := s.tables[t], h.sets[t].Keys()[i:i+1]
		width := x.Width()
		g := h.guests[t]
		if int(s.shards.owner[x.ShardOf(key[0])]) == s.rank {
			g = s.staged[t]
		}
		s.ids = resize(s.ids, 1)
		g.add(key, unknown[:], g.epoch, raw.Of[float32](part[:4*width]), s.ids)
		part = part[4*width:]
	})
	return nil
}

// unknown is the row of a key that Apply has to look up.
var unknown [1]table.Row

// joinGuests adds the gradients of guests to those staged for Apply.
func (h *Copies) joinGuests() {
	s := h.store
	for t, g := range h.guests {
		if g.set.Len() > 0 {
			s.ids = resize(s.ids, g.set.Len())
			s.staged[t].add(g.set.Keys(), g.rows, s.staged[t].epoch, g.grads, s.ids)
			s.counters.StepsOfRows -= int64(g.set.Len())
			g.reset()
		}
	}
}

// received returns the bits of the copied keys that a rank has in the batch.
func (l *pull) received(rank int) []uint64 {
	words := len(l.announced) / l.store.size
	return raw.Of[uint64](raw.Bytes(l.announced[(rank+1)*words-len(l.touched) : (rank+1)*words]))
}

// touch removes the copied keys from the sections of a batch and places their rows from at
// on. It returns the end of the rows.
func (l *batch) touch(at int) int {
	s := l.store
	h := &s.copies
	for t, set := range h.sets {
		l.copyAt[t] = resize(l.copyAt[t], set.Len())
		if set.Len() == 0 {
			continue
		}
		for id, key := range l.sets[t].Keys() {
			if i, ok := set.Number(key); ok {
				l.copyAt[t][i], l.place[t][id] = uint32(at), uint32(at)
				at += s.tables[t].Width()
			}
		}
	}
	return at
}

// notice sets the bits of the copied keys of a batch and subtracts them from the counts.
func (l *batch) notice() {
	s := l.store
	h := &s.copies
	l.touched = resize(l.touched, h.words())
	clear(l.touched)
	for t, set := range h.sets {
		if set.Len() == 0 {
			continue
		}
		owners := l.sets[t].Owners()
		for id, key := range l.sets[t].Keys() {
			if i, ok := set.Number(key); ok {
				l.touched[h.wordAt[t]+int(i/64)] |= 1 << (i % 64)
				l.want.counts[int(owners[id])*len(s.tables)+t]--
			}
		}
	}
}

// readCopied reads the rows of copied keys from this rank's own copies.
func (l *pull) readCopied() error {
	s := l.store
	for t, set := range s.copies.sets {
		if set.Len() == 0 {
			continue
		}
		x, some := s.tables[t], &l.picked
		some.keys, some.ids = some.keys[:0], some.ids[:0]
		for w, b := range l.touched[s.copies.wordAt[t]:s.copies.wordAt[t+1]] {
			for ; b != 0; b &= b - 1 {
				i := 64*w + bits.TrailingZeros64(b)
				some.keys, some.ids = append(some.keys, set.Keys()[i]), append(some.ids, l.copyAt[t][i])
			}
		}
		some.held = resize(some.held, len(some.keys))
		if err := x.Find(some.keys, some.held); err != nil {
			return err
		}
		for i, at := range some.ids {
			row := l.rows[at : int(at)+x.Width()]
			x.Read(l.fresh(t, some.keys[i:i+1]), some.held[i:i+1], row, x.Width())
			s.wire[t].Rows.round(row)
		}
	}
	return nil
}

// clear removes all copies.
func (h *Copies) clear() {
	s := h.store
	n := len(s.tables)
	*h = Copies{
		store: s, wordAt: make([]int, n+1), foreign: make([]int, n), sums: make([][]float32, n), sent: make([]int, s.size), got: make([]int, s.size),
		onReduce: h.takeReduce, onSum: h.takeSum,
	}
	for _, x := range s.tables {
		h.sets = append(h.sets, table.NewSet(x.Salt(), nil, 1))
		h.guests = append(h.guests, &staged{set: table.NewSet(x.Salt(), nil, 1)})
	}
}

// valid reports whether the bits that a rank sent all belong to keys.
func (h *Copies) valid(sent []int64) bool {
	for t, set := range h.sets {
		if n := set.Len(); n%64 != 0 && uint64(sent[h.wordAt[t+1]-1])>>(n%64) != 0 {
			return false
		}
	}
	return true
}

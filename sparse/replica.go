package sparse

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// Replica returns the calls that keep and restore copies of shards on other ranks.
func (s *Store) Replica() *Replica { return &s.replica }

func (c *Replica) own() int { return c.buddy[c.store.rank] }

// Start makes every rank keep a copy of the shards of its ward in addition to its own,
// so that the loss of one rank loses no row (see Heal). buddy[r] is the rank that keeps
// the copy of rank r; each rank must occur once. nil means the next rank. Every rank
// calls Start with the same list before the store has rows. From then on, Mirror must
// precede each Apply. Copies need the memory of the rows a second time. They stay in
// memory even if the table has a tier.
func (c *Replica) Start(buddy []int) error {
	s := c.store
	fault := func(err error) error {
		return fmt.Errorf("sparse: replicate: rank %d of %d: %w", s.rank, s.size, err)
	}
	switch {
	case s.size < 2:
		return fault(errors.New("a copy needs a second rank"))
	case c.tables != nil:
		return fault(errors.New("it was called before"))
	}
	buddy, ward, err := c.pairUp(buddy)
	if err != nil {
		return fault(err)
	}
	r := Replica{
		store: s, buddy: buddy, ward: ward,
		staged: make([]forwarded, len(s.tables)),
		sizes:  make([]int64, s.size*len(s.tables)), received: make([]int64, s.size*len(s.tables)),
		sent: make([]int, s.size), got: make([]int, s.size), onSums: c.receiveSums,
	}
	for i, x := range s.tables {
		if x.Rows() > 0 {
			return fault(fmt.Errorf("table %q has rows already", s.name(i)))
		}
		t, err := table.Open(s.cfg.Tables[i].engine(), s.cfg.Seed, s.cfg.Shards)
		if err != nil {
			return fault(err)
		}
		if s.decays {
			t.Share(&s.past)
		}
		r.tables = append(r.tables, t)
	}
	*c = r
	return nil
}

// pairUp returns the buddy of each rank and the ward of this one.
func (c *Replica) pairUp(buddy []int) (all []int, ward int, err error) {
	s := c.store
	all = slices.Clone(buddy)
	if buddy == nil {
		for r := range s.size {
			all = append(all, (r+1)%s.size)
		}
	}
	ward, wards := -1, make([]bool, s.size)
	for r, b := range all {
		if len(all) != s.size || b < 0 || b >= s.size || b == r || wards[b] {
			return nil, 0, fmt.Errorf("buddies %v of %d ranks: each rank must have another rank as its buddy, and be the buddy of one", all, s.size)
		}
		if wards[b] = true; b == s.rank {
			ward = r
		}
	}
	return all, ward, nil
}

// Mirror checks the staged gradients as Apply would and sends them, summed, to this
// rank's buddy. The gradients of the ward are staged for the same Apply. Every rank
// calls it. Once it has returned on all ranks, the remaining ranks can take the step
// even if a rank is lost. It sends 8 bytes and one float32 gradient per distinct key of
// this rank's shards, in two all-to-alls.
func (c *Replica) Mirror(at Step) error {
	s := c.store
	fault := func(err error) error {
		return fmt.Errorf("sparse: mirror: step %d: rank %d of %d: %w", at.N, s.rank, s.size, err)
	}
	if err := s.pipeline.endPush(); err != nil {
		return err
	}
	if err := s.check(at); err != nil {
		return fault(err)
	}
	n := len(s.tables)
	clear(c.sizes)
	for i, g := range s.staged {
		c.sizes[c.own()*n+i] = int64(g.set.Len())
	}
	if err := s.ex.AllToAll(c.sizes, c.received); err != nil {
		return fault(fmt.Errorf("exchange of counts: %w", err))
	}
	clear(c.sent)
	clear(c.got)
	for i, t := range s.tables {
		each := 8 + 4*t.Width()
		k := c.received[c.ward*n+i]
		if k < 0 || k > int64(s.cfg.MaxKeysPerExchange)*int64(s.size) {
			return fault(fmt.Errorf("table %q: rank %d sends gradients of %d keys, each rank may have asked for %d", s.name(i), c.ward, k, s.cfg.MaxKeysPerExchange))
		}
		own := each * s.staged[i].set.Len()
		c.sent[c.own()] += own
		s.shards.carried[i] += int64(own)
		c.got[c.ward] += each * int(k)
	}
	wire := c.wire.take(c.sent[c.own()])
	to := wire
	for _, g := range s.staged { // keys first: they are words
		to = to[copy(to, raw.Bytes(g.set.Keys())):]
	}
	for _, g := range s.staged {
		to = to[copy(to, raw.Bytes(g.grads)):]
	}
	if err := s.visit.AllToAllVisit(wire, c.sent, c.got, c.onSums); err != nil {
		return fault(fmt.Errorf("exchange of sums: %w", err))
	}
	s.counters.ReplicaBytesSent += int64(8*n*(s.size-1) + len(wire))
	return nil
}

// receiveSums stages the gradients that the ward sends.
func (c *Replica) receiveSums(from int, part []byte) error {
	if from != c.ward {
		return nil
	}
	s := c.store
	counts := c.received[from*len(s.tables):][:len(s.tables)]
	for i := range s.tables {
		n := 8 * int(counts[i])
		c.staged[i].keys = append(c.staged[i].keys[:0], raw.Of[uint64](part[:n])...)
		part = part[n:]
	}
	for i, t := range s.tables {
		n := 4 * t.Width() * int(counts[i])
		c.staged[i].grads = append(c.staged[i].grads[:0], raw.Of[float32](part[:n])...)
		part = part[n:]
	}
	return nil
}

// apply takes the ward's step. It cannot fail unless the ward's own step fails: Mirror on
// the ward has checked that the gradients are finite.
func (c *Replica) apply(at Step) error {
	for i, t := range c.tables {
		g := &c.staged[i]
		if _, err := t.Apply(at, table.Gradients{Keys: g.keys, Values: g.grads, Finite: true}); err != nil {
			return fmt.Errorf("copy of rank %d: %w", c.ward, err)
		}
	}
	c.forget()
	return nil
}

// forget clears the staged gradients.
func (c *Replica) forget() {
	for i := range c.staged {
		g := &c.staged[i]
		g.keys, g.grads = g.keys[:0], g.grads[:0]
	}
}

func (c *Replica) each(f func(t *table.Table) error) (err error) {
	for _, t := range c.tables {
		err = errors.Join(err, f(t))
	}
	return err
}

// Rebuild makes all copies again after shards were loaded from a checkpoint; every rank
// calls it. Without Start it does nothing.
func (c *Replica) Rebuild() error {
	s := c.store
	if c.tables == nil {
		return nil
	}
	s.pipeline.wait()
	c.forget()
	if err := c.each((*table.Table).Reset); err != nil {
		return err
	}
	for i, t := range c.tables {
		t.SetNow(s.tables[i].Now())
	}
	left := make([][]healed, s.size)
	left[c.own()] = sections(s.tables, true)
	if err := c.healAll(left); err != nil {
		return fmt.Errorf("sparse: rebuild copies: rank %d of %d: %w", s.rank, s.size, err)
	}
	return nil
}

// Rejoin moves the store to a new group in which this rank has the same number. Rows,
// copies and staged gradients are kept. Batches in flight are dropped: Lookups pulled
// before cannot be pushed.
func (c *Replica) Rejoin(ex Exchanger) error {
	s := c.store
	if ex == nil || ex.Rank() != s.rank || ex.Size() != s.size {
		return fmt.Errorf("sparse: rejoin: rank %d of %d: give an Exchanger in which the rank has the same place", s.rank, s.size)
	}
	s.pipeline.stop()
	s.link, s.pipeline.waiting, s.inFlight, s.pulls = newLink(ex), nil, s.inFlight[:0], 0
	s.slots.clear()
	s.generation++
	return nil
}

// Discard drops the staged gradients of the shards and of the copies: those of a step
// that no rank has taken.
func (c *Replica) Discard() {
	s := c.store
	s.pipeline.wait()
	for _, g := range s.staged {
		g.reset()
	}
	c.forget()
}

// maxHeal bounds the bytes of shards that are sent to a rank at once, except for the last
// shard. maxHealed bounds what a rank accepts.
const (
	maxHeal   = 4 << 20
	maxHealed = 1 << 34
	healHead  = 24 // kind, table, shard, 0 as words of 4 bytes; length of 8
)

// healed is a shard to send, or its occurrence counts: a rank's own, or from a copy.
type healed struct {
	from         *table.Table
	table, shard int
	copied       bool // the receiver stores it as a copy
	seen         bool // occurrence counts of keys without a row, not rows
}

// Bits of the kind of a healed shard.
const (
	healCopied = 1 << iota
	healSeen
)

// Heal restores ranks that have rejoined empty: their shards from their buddy's copy,
// and their copy from their ward. Every rank calls it with the same arguments. The
// store is then as after Apply of step. Rows are sent in the format of SaveShard, a few
// MiB at a time. Heal returns an error if a rank and its buddy are both empty; a
// checkpoint is then needed.
func (c *Replica) Heal(empty []bool, step int64) error {
	s := c.store
	fault := func(err error) error { return fmt.Errorf("sparse: heal: rank %d of %d: %w", s.rank, s.size, err) }
	for r := range empty {
		if b := c.buddy[r]; empty[r] && empty[b] {
			return fault(fmt.Errorf("rank %d and its buddy, rank %d, are both empty", r, b))
		}
	}
	if empty[s.rank] {
		for i := range s.tables {
			s.tables[i].SetNow(step)
			c.tables[i].SetNow(step)
		}
	}
	left := make([][]healed, s.size)
	if !empty[s.rank] {
		if empty[c.own()] {
			left[c.own()] = append(left[c.own()], sections(s.tables, true)...)
		}
		if empty[c.ward] {
			left[c.ward] = append(left[c.ward], sections(c.tables, false)...)
		}
	}
	if err := c.healAll(left); err != nil {
		return fault(err)
	}
	s.stepped = step
	return nil
}

// healAll sends shards to the ranks until none is left.
func (c *Replica) healAll(left [][]healed) error {
	for {
		if more, err := c.healSome(left); !more || err != nil {
			return err
		}
	}
}

// sections returns the shards with rows, and those with occurrence counts.
func sections(tables []*table.Table, copied bool) (all []healed) {
	for i, t := range tables {
		for shard := range t.Shards() {
			if t.ShardRows(shard) > 0 {
				all = append(all, healed{t, i, shard, copied, false})
			}
			if t.Seen(shard) {
				all = append(all, healed{t, i, shard, copied, true})
			}
		}
	}
	return all
}

// healSome sends some of the shards in left and reports whether a rank has more.
func (c *Replica) healSome(left [][]healed) (more bool, err error) {
	s := c.store
	var out bytes.Buffer
	sent, got := make([]int, s.size), make([]int, s.size)
	words := make([]int64, 2*s.size)
	rest := int64(0)
	for r := range left {
		at := out.Len()
		for len(left[r]) > 0 && out.Len()-at < maxHeal {
			if err := left[r][0].write(&out); err != nil {
				return false, err
			}
			left[r] = left[r][1:]
		}
		sent[r] = out.Len() - at
		rest += int64(len(left[r]))
	}
	for r := range sent {
		words[2*r], words[2*r+1] = int64(sent[r]), rest
	}
	received := make([]int64, 2*s.size)
	if err := s.ex.AllToAll(words, received); err != nil {
		return false, err
	}
	for r := range got {
		if n := received[2*r]; n < 0 || n > maxHealed {
			return false, fmt.Errorf("rank %d sends %d bytes of shards, at most %d are possible", r, n, maxHealed)
		}
		got[r] = int(received[2*r])
		more = more || received[2*r+1] > 0
	}
	s.counters.ReplicaBytesSent += int64(out.Len())
	return more, s.visit.AllToAllVisit(out.Bytes(), sent, got, c.receiveHealed)
}

// write appends a shard, padded to whole words.
func (h healed) write(out *bytes.Buffer) error {
	at := out.Len()
	out.Write(make([]byte, healHead))
	save, kind := h.from.SaveShard, uint32(0)
	if h.copied {
		kind |= healCopied
	}
	if h.seen {
		save, kind = h.from.SaveSeen, kind|healSeen
	}
	if err := save(out, h.shard); err != nil {
		return err
	}
	le, head := binary.LittleEndian, out.Bytes()[at:]
	le.PutUint32(head, kind)
	le.PutUint32(head[4:], uint32(h.table))
	le.PutUint32(head[8:], uint32(h.shard))
	le.PutUint64(head[16:], uint64(out.Len()-at-healHead))
	out.Write(make([]byte, -out.Len()&7))
	return nil
}

// receiveHealed loads the shards that a rank sends.
func (c *Replica) receiveHealed(from int, part []byte) error {
	s := c.store
	le := binary.LittleEndian
	for len(part) > 0 {
		if len(part) < healHead {
			return fmt.Errorf("shards of rank %d: they end inside a head", from)
		}
		kind, t, shard, n := le.Uint32(part), le.Uint32(part[4:]), le.Uint32(part[8:]), le.Uint64(part[16:])
		part = part[healHead:]
		if n > uint64(len(part)) || (n+7)&^7 > uint64(len(part)) || t >= uint32(len(s.tables)) || shard >= uint32(len(s.shards.owner)) {
			return fmt.Errorf("shards of rank %d: shard %d of table %d with %d bytes, %d are left", from, shard, t, n, len(part))
		}
		to, whose := s.tables, s.rank
		if kind&healCopied != 0 {
			to, whose = c.tables, c.ward
		}
		if int(s.shards.owner[shard]) != whose {
			return fmt.Errorf("shards of rank %d: shard %d is not rank %d's", from, shard, whose)
		}
		load := to[t].LoadShard
		if kind&healSeen != 0 {
			load = to[t].LoadSeen
		}
		if err := load(bytes.NewReader(part[:n]), int(shard)); err != nil {
			return err
		}
		part = part[(n+7)&^7:]
	}
	return nil
}

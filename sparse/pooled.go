package sparse

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/internal/raw"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// Pooled is a batch whose bags the owners pool: in place of rows each sends one
// sum for each bag that has keys of it, and takes one gradient. With n values in B
// bags and P ranks that is 12·n bytes of keys and factors, 4·B·P of counts and at
// most 8·V·B·P of sums and gradients, against (8+8V) for each unique key that a
// [Lookup] sends: less for long bags of rarely repeated keys. [Lookup.Compare] says.
//
// A bag's sum adds its owners' sums in rank order, each of them its own values from
// first to last; an owner adds gradients in the order of ranks, features, bags and
// values. So results are those of a Lookup up to rounding. Everything travels as
// float32.
type Pooled struct {
	store      *Store
	state      lookupState
	generation int64

	bags   []int       // by feature
	tables []int       // by feature
	values [][]float32 // by feature: B×V
	ask    []stream    // by owner
	asked  []stream    // by rank
	wire   room
	sizes  [2][]int // bytes by rank: sent, received
	told   []int64
	heard  []int64
	rows   []float32
	held   []table.Row

	onAsked, onSums, onGrads func(from int, part []byte) error // kept so that a step allocates nothing
}

// stream is what one owner is asked: for each feature its table and bags, and of
// each bag how many keys; then all keys, then all factors.
type stream struct {
	counts []uint32
	keys   []uint64
	coefs  []float32
}

func (x *stream) reset() { x.counts, x.keys, x.coefs = x.counts[:0], x.keys[:0], x.coefs[:0] }

const pooledWords = 4 // fingerprint, kind, counts, keys

// NewPooled returns an empty Pooled of this store.
func (s *Store) NewPooled() *Pooled {
	p := &Pooled{
		store: s, ask: make([]stream, s.size), asked: make([]stream, s.size), sizes: [2][]int{make([]int, s.size), make([]int, s.size)},
		told: make([]int64, pooledWords*s.size), heard: make([]int64, pooledWords*s.size),
	}
	p.onAsked, p.onSums, p.onGrads = p.takeAsked, p.takeSums, p.takeGrads
	return p
}

// PullPooled is Pull of a batch that the owners pool; every rank calls it. A table
// that is trained so has no hot keys, and its rows do not travel ahead.
func (s *Store) PullPooled(p *Pooled, bags []Bags, insert bool) error {
	if p.store != s {
		panic("sparse: PullPooled: the Pooled belongs to another Store")
	}
	s.settle()
	p.state = idle
	if err := s.pullPooled(p, bags, insert); err != nil {
		return fmt.Errorf("sparse: pull pooled: rank %d of %d: %w", s.rank, s.size, err)
	}
	p.generation, p.state = s.generation, reading
	if insert {
		p.state = training
	}
	return nil
}

func (s *Store) pullPooled(p *Pooled, bags []Bags, insert bool) error {
	if s.waiting != nil {
		return fmt.Errorf("the batch of pull %d is prepared: Complete it first", s.waiting.number)
	}
	if err := p.take(bags); err != nil {
		return err
	}
	for f := range bags {
		if t := bags[f].Table; insert {
			if s.hot.sets[t].Len() > 0 {
				return fmt.Errorf("table %q has hot keys, whose gradients owners do not take alone: open the store without HotKeys", s.name(t))
			}
			s.still[t] = false
		}
	}
	if err := p.askOwners(insert); err != nil {
		return err
	}
	return p.sum()
}

// take checks the bags and writes what each owner is asked.
func (p *Pooled) take(bags []Bags) error {
	s := p.store
	for f := range bags {
		if err := bags[f].check(len(s.tables)); err != nil {
			return fmt.Errorf("feature %d%s: %w", f, s.tableName(bags[f].Table), err)
		}
	}
	for r := range p.ask {
		p.ask[r].reset()
	}
	p.bags, p.tables = p.bags[:0], p.tables[:0]
	p.values = resize(p.values, len(bags))
	for f := range bags {
		b := &bags[f]
		n, x := max(0, len(b.Offsets)-1), s.tables[b.Table]
		p.bags, p.tables = append(p.bags, n), append(p.tables, b.Table)
		p.values[f] = resize(p.values[f], n*x.Width())
		clear(p.values[f])
		for r := range p.ask {
			x := &p.ask[r]
			x.counts = slices.Grow(append(x.counts, uint32(b.Table), uint32(n)), n)
			x.counts = x.counts[:len(x.counts)+n]
			clear(x.counts[len(x.counts)-n:])
		}
		for i := range n {
			lo, hi := b.Offsets[i], b.Offsets[i+1]
			scale := b.scale(lo, hi)
			for j := lo; j < hi; j++ {
				to := &p.ask[s.owner[x.ShardOf(b.Values[j])]]
				to.counts[len(to.counts)-n+i]++
				to.keys = append(to.keys, b.Values[j])
				to.coefs = append(to.coefs, float32(b.weight(j)*scale))
			}
		}
		s.counters.KeysPulled += int64(len(b.Values))
	}
	return nil
}

// streamBytes is the size of a stream on the wire: keys first, as they are words.
func streamBytes(counts, keys int) int { return (12*keys + 4*counts + 7) &^ 7 }

// askOwners exchanges the streams and remembers them: gradients come without.
func (p *Pooled) askOwners(insert bool) error {
	s, total := p.store, 0
	for r := range p.ask {
		x, told := &p.ask[r], p.told[pooledWords*r:]
		told[0], told[1], told[2], told[3] = int64(s.print), 0, int64(len(x.counts)), int64(len(x.keys))
		if insert {
			told[1] = 1
		}
		p.sizes[0][r] = streamBytes(len(x.counts), len(x.keys))
		total += p.sizes[0][r]
	}
	wire := p.wire.take(total)
	to := wire
	for r := range p.ask {
		x, rest := &p.ask[r], to[:p.sizes[0][r]]
		for _, b := range [][]byte{bytesOf(x.keys), raw.Bytes(x.coefs), raw.Bytes(x.counts)} {
			rest = rest[copy(rest, b):]
		}
		to = to[p.sizes[0][r]:]
	}
	if err := s.ex.AllToAll(p.told, p.heard); err != nil {
		return fmt.Errorf("exchange of counts: %w", err)
	}
	for r := range s.size {
		told := p.heard[pooledWords*r:]
		if uint64(told[0]) != s.print || told[1] != p.told[1] {
			return fmt.Errorf("rank %d has another configuration or makes another call (fingerprint %016x, here %016x)", r, uint64(told[0]), s.print)
		}
		limit := int64(s.cfg.MaxKeysPerExchange)
		if told[2] < 0 || told[2] > 4*limit || told[3] < 0 || told[3] > limit {
			return fmt.Errorf("rank %d announces %d keys in %d words, at most %d are allowed: make its batch smaller or raise MaxKeysPerExchange", r, told[3], told[2], limit)
		}
		p.sizes[1][r] = streamBytes(int(told[2]), int(told[3]))
		if r != s.rank {
			s.counters.KeyBytesSent += int64(p.sizes[0][r])
			s.counters.KeyBytesReceived += int64(p.sizes[1][r])
			s.counters.CountBytesSent += 8 * pooledWords
		}
	}
	if err := s.visit.AllToAllVisit(wire, p.sizes[0], p.sizes[1], p.onAsked); err != nil {
		return fmt.Errorf("exchange of keys: %w", err)
	}
	return nil
}

// takeAsked copies and checks what a rank asks.
func (p *Pooled) takeAsked(from int, part []byte) error {
	s, x := p.store, &p.asked[from]
	counts, keys := int(p.heard[pooledWords*from+2]), int(p.heard[pooledWords*from+3])
	x.keys = append(x.keys[:0], wordsOf(part[:8*keys])...)
	x.coefs = append(x.coefs[:0], floatsOf(part[8*keys:12*keys])...)
	x.counts = append(x.counts[:0], raw.Of[uint32](part[12*keys:][:4*counts])...)
	left := uint64(keys)
	for c := x.counts; len(c) > 0; {
		if len(c) < 2 || int(c[0]) >= len(s.tables) || uint64(c[1]) > uint64(len(c)-2) {
			return fmt.Errorf("rank %d asks for bags that do not fit what it announced", from)
		}
		for _, n := range c[2 : 2+c[1]] {
			if uint64(n) > left {
				return fmt.Errorf("rank %d asks for more keys than it announced, %d", from, keys)
			}
			left -= uint64(n)
		}
		c = c[2+c[1]:]
	}
	if left != 0 {
		return fmt.Errorf("rank %d announced %d keys, %d are in no bag", from, keys, left)
	}
	return nil
}

// each calls f with every bag that has keys in the counts of a stream: its feature,
// table and number, and its keys as lo to hi.
func each(counts []uint32, f func(feature, t, bag, lo, hi int)) {
	at := 0
	for feature := 0; len(counts) > 0; feature++ {
		t, n := int(counts[0]), int(counts[1])
		for bag, k := range counts[2 : 2+n] {
			if k > 0 {
				f(feature, t, bag, at, at+int(k))
				at += int(k)
			}
		}
		counts = counts[2+n:]
	}
}

// sumBytes sets the sizes of sums sent as an owner and received as a reader, and
// returns how many values are sent.
func (p *Pooled) sumBytes() (values int) {
	s := p.store
	for r := range s.size {
		p.sizes[0][r], p.sizes[1][r] = 0, 0
		each(p.asked[r].counts, func(_, t, _, _, _ int) { p.sizes[0][r] += 4 * s.tables[t].Width() })
		each(p.ask[r].counts, func(_, t, _, _, _ int) { p.sizes[1][r] += 4 * s.tables[t].Width() })
		values += p.sizes[0][r] / 4
	}
	return values
}

// sum pools what was asked, exchanges the sums and adds them.
func (p *Pooled) sum() error {
	s := p.store
	wire := p.wire.take(4 * p.sumBytes())
	to := floatsOf(wire)
	for r := range s.size {
		x := &p.asked[r]
		var err error
		each(x.counts, func(_, t, _, lo, hi int) {
			width := s.tables[t].Width()
			err = errors.Join(err, p.pool(t, x.keys[lo:hi], x.coefs[lo:hi], to[:width]))
			to = to[width:]
		})
		if err != nil {
			return err
		}
	}
	if err := s.visit.AllToAllVisit(wire, p.sizes[0], p.sizes[1], p.onSums); err != nil {
		return fmt.Errorf("exchange of sums: %w", err)
	}
	for r := range s.size {
		if r != s.rank {
			s.counters.RowBytesSent += int64(p.sizes[0][r])
			s.counters.RowBytesReceived += int64(p.sizes[1][r])
		}
	}
	return nil
}

// takeSums adds the sums of an owner to the values, owners in order.
func (p *Pooled) takeSums(from int, part []byte) error {
	each(p.ask[from].counts, func(f, t, bag, _, _ int) {
		width := p.store.tables[t].Width()
		addTo(p.values[f][bag*width:(bag+1)*width], floatsOf(part[:4*width]))
		part = part[4*width:]
	})
	return nil
}

// pool writes the sum of the rows of keys.
func (p *Pooled) pool(t int, keys []uint64, coefs, dst []float32) error {
	x := p.store.tables[t]
	width := x.Width()
	p.held, p.rows = resize(p.held, len(keys)), resize(p.rows, len(keys)*width)
	if err := x.Find(keys, p.held); err != nil {
		return err
	}
	x.Read(keys, p.held, p.rows, width)
	clear(dst)
	for i, c := range coefs {
		addScaled(dst, p.rows[i*width:(i+1)*width], c)
	}
	return nil
}

// Values returns the pooled values of a feature, B rows of the V values of all
// parts of its table. They are valid until the next PullPooled.
func (p *Pooled) Values(feature int) []float32 {
	if p.state <= prepared {
		panic("sparse: Values: nothing has been pulled into this Pooled")
	}
	return p.values[feature]
}

// PushPooled is Push of a batch of PullPooled: dy[f] is the gradient of Values(f).
func (s *Store) PushPooled(p *Pooled, dy [][]float32) error {
	fault := func(err error) error {
		return fmt.Errorf("sparse: push pooled: rank %d of %d: %w", s.rank, s.size, err)
	}
	switch {
	case p.store != s:
		panic("sparse: PushPooled: the Pooled belongs to another Store")
	case p.state != training:
		return fault(errors.New("nothing has been pulled to train into this Pooled since its last push"))
	case p.generation != s.generation:
		return fault(errors.New("the store was reset after the pull: pull again"))
	case len(dy) != len(p.bags):
		panic(fmt.Sprintf("sparse: PushPooled: gradients of %d features, there are %d", len(dy), len(p.bags)))
	}
	p.state = pushed
	p.sumBytes()
	total := 0
	for _, n := range p.sizes[1] {
		total += n
	}
	wire := p.wire.take(total)
	to := floatsOf(wire)
	for r := range s.size {
		each(p.ask[r].counts, func(f, t, bag, _, _ int) {
			width := s.tables[t].Width()
			to = to[copy(to, dy[f][bag*width:(bag+1)*width]):]
		})
	}
	// Gradients go where sums came from: the sizes change sides.
	if err := s.visit.AllToAllVisit(wire, p.sizes[1], p.sizes[0], p.onGrads); err != nil {
		return fault(fmt.Errorf("exchange of gradients: %w", err))
	}
	for r := range s.size {
		if r != s.rank {
			s.counters.GradBytesSent += int64(p.sizes[1][r])
			s.counters.GradBytesReceived += int64(p.sizes[0][r])
		}
	}
	return nil
}

// takeGrads adds the gradients of a rank's bags to those of their keys.
func (p *Pooled) takeGrads(from int, part []byte) error {
	s, x := p.store, &p.asked[from]
	each(x.counts, func(_, t, _, lo, hi int) {
		width, g := s.tables[t].Width(), s.staged[t]
		dy := floatsOf(part[:4*width])
		part = part[4*width:]
		p.rows = resize(p.rows, width)
		s.ids = resize(s.ids, 1)
		for i := lo; i < hi; i++ {
			scale(p.rows, dy, x.coefs[i])
			g.add(x.keys[i:i+1], unknown[:], g.epoch, p.rows, s.ids)
		}
	})
	return nil
}

// Compare returns the bytes that this rank's part of the batch costs as unique
// rows, and what it would cost pooled by the owners, both ways and over a Pull and
// a Push: what a caller chooses by, after adding up over ranks.
func (l *Lookup) Compare() (unique, pooled int64) {
	s := l.store
	for i, n := range l.want.counts {
		if t := i % len(s.tables); i/len(s.tables) != s.rank {
			unique += n * int64(8+(s.wire[t].Rows.Bytes()+s.wire[t].Gradients.Bytes())*s.tables[t].Width())
		}
	}
	others := int64(s.size - 1)
	for f := range l.features {
		x := &l.features[f]
		values, width := int64(len(x.at)), int64(s.tables[x.table].Width())
		bags := int64(x.bags())
		remote := values * others / int64(s.size)
		sums := min(bags*others, remote) // a bag has at most one of each owner, and of each value
		pooled += 12*remote + 4*bags*others + 8*width*sums
	}
	return unique, pooled
}

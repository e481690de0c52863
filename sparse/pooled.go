package sparse

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/sparse/table"
)

func (x *stream) reset() { x.counts, x.keys, x.coefs = x.counts[:0], x.keys[:0], x.coefs[:0] }

// pooledWords is the number of words announced to each peer: the counts and keys of a
// stream.
const pooledWords = 2

func newPooler(l *Lookup) *pooler {
	s := l.store
	p := &pooler{l: l, ask: make([]stream, s.size), asked: make([]stream, s.size), sizes: [2][]int{make([]int, s.size), make([]int, s.size)}}
	for t, x := range s.tables {
		p.sets, p.grads = append(p.sets, nil), append(p.grads, nil)
		if s.how[t] == Pooled {
			p.sets[t] = table.NewSet(x.Salt(), nil, 1)
		}
	}
	p.onAsked, p.onSums, p.onGrads = p.receiveRequest, p.receiveSums, p.receiveGrads
	return p
}

// reset clears the previous batch.
func (p *pooler) reset() {
	p.features = p.features[:0]
	for r := range p.ask {
		p.ask[r].reset()
	}
}

// addFeature adds a feature to the requests to its owners. Each bag becomes one value.
func (p *pooler) addFeature(f int, b *Bags) {
	s, feature := p.l.store, &p.l.features[f]
	x, n := s.tables[b.Table], max(0, len(b.Offsets)-1)
	p.features = append(p.features, f)
	for r := range p.ask {
		to := &p.ask[r]
		to.counts = slices.Grow(append(to.counts, uint32(b.Table), uint32(n)), n)
		to.counts = to.counts[:len(to.counts)+n]
		clear(to.counts[len(to.counts)-n:])
	}
	for i := range n {
		lo, hi := b.Offsets[i], b.Offsets[i+1]
		scale := b.scale(lo, hi)
		for j := lo; j < hi; j++ {
			to := &p.ask[s.shards.owner[x.ShardOf(b.Values[j])]]
			to.counts[len(to.counts)-n+i]++
			to.keys = append(to.keys, b.Values[j])
			to.coefs = append(to.coefs, float32(b.weight(j)*scale))
		}
		feature.offsets[i+1] = int32(i + 1)
	}
}

// place places the bags behind the rows, from at on, and returns their end.
func (p *pooler) place(at int) int {
	for _, f := range p.features {
		x := &p.l.features[f]
		for i := range x.at {
			x.at[i] = uint32(at)
			at += p.l.store.tables[x.table].Width()
		}
	}
	return at
}

// streamBytes returns the size of a stream on the wire. Keys come first, because they are
// words.
func streamBytes(counts, keys int) int { return (12*keys + 4*counts + 7) &^ 7 }

// announce writes the size of this rank's request to another rank.
func (p *pooler) announce(rank int, words []int64) {
	x := &p.ask[rank]
	words[0], words[1] = int64(len(x.counts)), int64(len(x.keys))
	p.sizes[0][rank] = streamBytes(len(x.counts), len(x.keys))
}

// readAnnouncement reads the size of the request that a rank announces.
func (p *pooler) readAnnouncement(rank int, words []int64) error {
	limit := int64(p.l.store.cfg.MaxKeysPerExchange)
	if words[0] < 0 || words[0] > 4*limit || words[1] < 0 || words[1] > limit {
		return fmt.Errorf("rank %d announces %d keys in %d words to be pooled, at most %d are allowed: make its batch smaller or raise MaxKeysPerExchange", rank, words[1], words[0], limit)
	}
	x := &p.asked[rank]
	x.counts, x.keys, x.coefs = resize(x.counts, int(words[0])), resize(x.keys, int(words[1])), resize(x.coefs, int(words[1]))
	p.sizes[1][rank] = streamBytes(int(words[0]), int(words[1]))
	return nil
}

// exchangeRequests exchanges the streams and keeps them: gradients come without keys.
func (p *pooler) exchangeRequests(k *link) error {
	s, total := p.l.store, 0
	for _, n := range p.sizes[0] {
		total += n
	}
	wire := p.wire.take(total)
	to := wire
	for r := range p.ask {
		x, rest := &p.ask[r], to[:p.sizes[0][r]]
		for _, b := range [...][]byte{bytesOf(x.keys), raw.Bytes(x.coefs), raw.Bytes(x.counts)} {
			rest = rest[copy(rest, b):]
		}
		to = to[p.sizes[0][r]:]
	}
	if err := k.visit.AllToAllVisit(wire, p.sizes[0], p.sizes[1], p.onAsked); err != nil {
		return fmt.Errorf("exchange of bags: %w", err)
	}
	for r := range s.size {
		if r != s.rank {
			p.l.tally.KeyBytesSent += int64(p.sizes[0][r])
			p.l.tally.KeyBytesReceived += int64(p.sizes[1][r])
		}
	}
	return nil
}

// receiveRequest copies and checks the request of a rank.
func (p *pooler) receiveRequest(from int, part []byte) error {
	s, x := p.l.store, &p.asked[from]
	keys := len(x.keys)
	copy(bytesOf(x.keys), part)
	copy(raw.Bytes(x.coefs), part[8*keys:])
	copy(raw.Bytes(x.counts), part[12*keys:])
	left := uint64(keys)
	for c := x.counts; len(c) > 0; {
		if len(c) < 2 || int(c[0]) >= len(s.tables) || s.how[c[0]] != Pooled || uint64(c[1]) > uint64(len(c)-2) {
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

// each calls f for every bag with keys in the counts of a stream: its feature, table and
// number, and the range lo to hi of its keys.
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

// sumBytes sets the sizes of the sums that readers and owners exchange.
func (p *pooler) sumBytes() (asked, given int) {
	s := p.l.store
	for r := range s.size {
		p.sizes[0][r], p.sizes[1][r] = 0, 0
		each(p.ask[r].counts, func(_, t, _, _, _ int) { p.sizes[0][r] += 4 * s.tables[t].Width() })
		each(p.asked[r].counts, func(_, t, _, _, _ int) { p.sizes[1][r] += 4 * s.tables[t].Width() })
		asked, given = asked+p.sizes[0][r], given+p.sizes[1][r]
	}
	return asked, given
}

// sum pools the requested bags, exchanges the sums and adds them.
func (p *pooler) sum(k *link) error {
	s, l := p.l.store, p.l
	_, given := p.sumBytes()
	wire := p.wire.take(given)
	to := floatsOf(wire)
	p.unknown = resize(p.unknown, len(l.features))
	clear(p.unknown)
	for r := range s.size {
		x := &p.asked[r]
		var err error
		each(x.counts, func(f, t, _, lo, hi int) {
			width := s.tables[t].Width()
			err = errors.Join(err, p.pool(t, x.keys[lo:hi], x.coefs[lo:hi], to[:width]))
			to = to[width:]
			if f < len(p.features) { // otherwise the ranks' batches differ
				p.unknown[p.features[f]] += countZeros(p.held)
			}
		})
		if err != nil {
			return err
		}
	}
	for _, f := range p.features {
		x := &l.features[f]
		if n := len(x.at); n > 0 {
			width := s.tables[x.table].Width()
			clear(l.rows[x.at[0] : int(x.at[n-1])+width])
		}
	}
	if err := k.visit.AllToAllVisit(wire, p.sizes[1], p.sizes[0], p.onSums); err != nil {
		return fmt.Errorf("exchange of pooled bags: %w", err)
	}
	for r := range s.size {
		if r != s.rank {
			l.tally.RowBytesSent += int64(p.sizes[1][r])
			l.tally.RowBytesReceived += int64(p.sizes[0][r])
		}
	}
	return nil
}

func countZeros(rows []table.Row) (n int64) {
	for _, r := range rows {
		if r == 0 {
			n++
		}
	}
	return n
}

// pool writes the sum of the rows of keys to dst and stores the rows in held.
func (p *pooler) pool(t int, keys []uint64, coefs, dst []float32) error {
	x := p.l.store.tables[t]
	width := x.Width()
	p.held, p.rows = resize(p.held, len(keys)), resize(p.rows, len(keys)*width)
	if err := x.Find(keys, p.held); err != nil {
		return err
	}
	x.Read(p.l.fresh(t, keys), p.held, p.rows, width)
	clear(dst)
	for i, c := range coefs {
		addScaled(dst, p.rows[i*width:(i+1)*width], c)
	}
	return nil
}

// receiveSums adds the sums of an owner to the bags. It is called for owners in rank order.
func (p *pooler) receiveSums(from int, part []byte) error {
	each(p.ask[from].counts, func(f, t, bag, _, _ int) {
		x, width := &p.l.features[p.features[f]], p.l.store.tables[t].Width()
		addTo(p.l.rows[x.at[bag]:int(x.at[bag])+width], floatsOf(part[:4*width]))
		part = part[4*width:]
	})
	return nil
}

// push sends the gradients of bags, or zeros in their place, to the owners of their keys.
// The owners convert them to gradients of distinct keys and pass these to a sink.
func (p *pooler) push(k *link, zeros bool, to sink) error {
	s, l := p.l.store, p.l
	asked, _ := p.sumBytes()
	wire := p.wire.take(asked)
	if zeros {
		clear(wire)
	} else {
		x := floatsOf(wire)
		for r := range s.size {
			each(p.ask[r].counts, func(f, t, bag, _, _ int) {
				at, width := l.features[p.features[f]].at[bag], s.tables[t].Width()
				x = x[copy(x, l.grads[at:int(at)+width]):]
			})
		}
	}
	p.sink = to
	if err := k.visit.AllToAllVisit(wire, p.sizes[0], p.sizes[1], p.onGrads); err != nil {
		return fmt.Errorf("sparse: push: rank %d of %d: exchange of gradients of pooled bags: %w", s.rank, s.size, err)
	}
	for r := range s.size {
		if r != s.rank {
			s.counters.GradBytesSent += int64(p.sizes[0][r])
			s.counters.GradBytesReceived += int64(p.sizes[1][r])
		}
	}
	return nil
}

// receiveGrads converts the gradients of a rank's bags to gradients of its distinct keys.
func (p *pooler) receiveGrads(from int, part []byte) error {
	s, x := p.l.store, &p.asked[from]
	for t, set := range p.sets {
		if set != nil {
			set.Reset()
			p.grads[t] = p.grads[t][:0]
		}
	}
	each(x.counts, func(_, t, _, lo, hi int) {
		width, set := s.tables[t].Width(), p.sets[t]
		dy := floatsOf(part[:4*width])
		part = part[4*width:]
		s.ids = resize(s.ids, hi-lo)
		set.Add(x.keys[lo:hi], s.ids)
		if n := set.Len() * width; n > len(p.grads[t]) {
			was := len(p.grads[t])
			p.grads[t] = slices.Grow(p.grads[t], n-was)[:n]
			clear(p.grads[t][was:])
		}
		for i, id := range s.ids {
			addScaled(p.grads[t][int(id)*width:(int(id)+1)*width], dy, x.coefs[lo+i])
		}
	})
	for t, set := range p.sets {
		if set != nil && set.Len() > 0 {
			p.notFound = resize(p.notFound, set.Len())
			p.sink(from, t, set.Keys(), p.notFound, p.grads[t])
		}
	}
	return nil
}

// measure counts the requested keys, as pull.measure does for rows.
func (p *pooler) measure() {
	s := p.l.store
	for r := range p.asked {
		x := &p.asked[r]
		each(x.counts, func(_, t, _, lo, hi int) {
			bytes := int64(12 + 8*s.tables[t].Width()/(hi-lo))
			for _, key := range x.keys[lo:hi] {
				load := &s.shards.loads[s.tables[t].ShardOf(key)]
				load.Keys += loadEvery
				load.WireBytes += loadEvery * bytes
			}
		})
	}
}

// countTraffic counts the bytes that this owner exchanges for a rank's bags.
func (p *pooler) countTraffic(rank int) {
	s := p.l.store
	each(p.asked[rank].counts, func(_, t, _, lo, hi int) {
		s.shards.carried[t] += int64(12*(hi-lo) + 8*s.tables[t].Width())
	})
	for c := p.asked[rank].counts; len(c) > 0; c = c[2+c[1]:] {
		s.shards.carried[c[0]] += int64(4 * (2 + c[1]))
	}
}

// nonFinite returns the first key of a bag whose sum or gradient is NaN or infinite.
func (p *pooler) nonFinite() (table string, key uint64, found bool) {
	l, s := p.l, p.l.store
	for r := range p.ask {
		x := &p.ask[r]
		each(x.counts, func(f, t, bag, lo, _ int) {
			at, width := int(l.features[p.features[f]].at[bag]), s.tables[t].Width()
			if !found && (!finite(l.rows[at:at+width]) || l.state != reading && !finite(l.grads[at:at+width])) {
				table, key, found = s.name(t), x.keys[lo], true
			}
		})
	}
	return table, key, found
}

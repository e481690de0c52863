package encode

import "math"

// A row is an encoded record in 64-bit words. Windows keep rows, so that text is parsed
// once, in file order, and the shuffle moves rows.
//
//	head    bit 0: the label, bit 1: lists follow, not single keys
//	dense   the numbers, then the targets, two float32 per word, the first in the low half
//	keys    one per entry of Batch.Sparse; or, for lists, per entry its length n
//	        with bit 63 set if it has weights, n keys, and n weights as above
const (
	headLabel  = 1 << 0
	headLists  = 1 << 1
	hasWeights = 1 << 63
)

// floatWords returns the number of words that hold n numbers.
func floatWords(n int) int { return (n + 1) / 2 }

// putFloat stores x as number i of words. An even i clears number i+1.
func putFloat(words []uint64, i int, x float32) {
	w := &words[i/2]
	if i%2 == 0 {
		*w = uint64(math.Float32bits(x))
	} else {
		*w |= uint64(math.Float32bits(x)) << 32
	}
}

// float returns number i of words.
func float(words []uint64, i int) float32 {
	return math.Float32frombits(uint32(words[i/2] >> (i % 2 * 32)))
}

// shape is the layout of the rows of an encoder.
type shape struct {
	dense  int // numbers, including targets
	sparse int // entries of Batch.Sparse
	vocabs []int

	targets []target // the last numbers of a row
	number  bool     // the first target is the first label

	rated                []rated // the last sparse features
	firstRated           int     // index of the first
	outOfFold, keepRated bool    // of Encoder
}

// firstKey returns the index of the first key of a row.
func (s *shape) firstKey() int { return 1 + floatWords(s.dense) }

// plainWords returns the length of a row of single keys.
func (s *shape) plainWords() int { return s.firstKey() + s.sparse }

// appendLists appends row 0 of a batch to dst, as lists.
func (s *shape) appendLists(dst []uint64, b *Batch) []uint64 {
	head := uint64(headLists)
	if b.Label[0] == 1 {
		head |= headLabel
	}
	dst = append(dst, head)
	dst = appendFloats(dst, b.Dense)
	for i := range b.Sparse {
		j := &b.Sparse[i]
		n := uint64(len(j.Values))
		if len(j.Weights) > 0 {
			n |= hasWeights
		}
		dst = append(append(dst, n), j.Values...)
		dst = appendFloats(dst, j.Weights)
	}
	return dst
}

func appendFloats(dst []uint64, x []float32) []uint64 {
	at := len(dst)
	dst = extend(dst, floatWords(len(x)))
	for i, v := range x {
		putFloat(dst[at:], i, v)
	}
	return dst
}

// extend makes s longer by n. The contents of the new part are undefined.
func extend[T any](s []T, n int) []T {
	if len(s)+n <= cap(s) {
		return s[:len(s)+n]
	}
	return append(s, make([]T, n)...)
}

// tile is the number of rows moved into a batch at once. Columns are written several rows
// at a time, and the rows, which are anywhere in the window, are loaded concurrently.
const tile = 64

// tileStep is the distance of two columns of a tile. It is one cache line longer than a
// column, so that the columns of one record do not share a few cache sets.
const tileStep = tile + 8

// gather collects rows, or single keys, and moves them into a batch.
type gather struct {
	shape
	unknown []int64 // per entry of Batch.Sparse and reason: keys not in its vocabulary
	rows    [tile][]uint64
	n       int
	keys    []uint64 // key i of record t at i·tileStep + t
	m       int      // number of records in keys
}

// newGather returns a gather for rows of a shape.
func newGather(s shape) gather {
	return gather{shape: s, unknown: make([]int64, Reasons*s.sparse), keys: make([]uint64, s.sparse*tileStep+tile)}
}

// begin returns the places of the next record, which has one key per feature. Follow it
// with end or giveUp.
func (g *gather) begin(b *Batch) places {
	if g.n > 0 || g.m == tile {
		g.flush(b)
	}
	b.Dense = extend(b.Dense, g.dense)
	return places{b.Dense[len(b.Dense)-g.dense:], g.keys[g.m:], tileStep}
}

func (g *gather) end(b *Batch, one bool) {
	label := float32(0)
	if one {
		label = 1
	}
	b.Label = append(b.Label, label)
	g.m++
}

func (g *gather) giveUp(b *Batch) { b.Dense = b.Dense[:len(b.Dense)-g.dense] }

// add adds a row, which must not change until flush. Call Finish after the last.
func (g *gather) add(b *Batch, row []uint64) bool {
	if g.m > 0 {
		g.flush(b)
	}
	if row[0]&headLists != 0 {
		g.flush(b)
		return g.lists(b, row)
	}
	g.rows[g.n] = row
	if g.n++; g.n == tile {
		g.flush(b)
	}
	return true
}

// flushKeys moves the single keys into the batch.
func (g *gather) flushKeys(b *Batch) {
	for i := range b.Sparse {
		j := &b.Sparse[i]
		j.Values = append(j.Values, g.keys[i*tileStep:][:g.m]...)
		if b.lists {
			for t := range g.m {
				j.Offsets = append(j.Offsets, int32(len(j.Values)-g.m+t+1))
			}
		}
	}
	b.Rows += g.m
	g.m = 0
}

// flush moves the collected rows and keys into the batch.
func (g *gather) flush(b *Batch) {
	if g.m > 0 {
		g.flushKeys(b)
	}
	rows := g.rows[:g.n]
	if g.n = 0; len(rows) == 0 {
		return
	}
	b.Rows += len(rows)
	first := g.firstKey()
	for _, row := range rows {
		b.Label = append(b.Label, float32(row[0]&headLabel))
		n := len(b.Dense)
		b.Dense = extend(b.Dense, g.dense)
		words, to := row[1:first], b.Dense[n:]
		for i, w := range words {
			to[2*i] = math.Float32frombits(uint32(w))
			if 2*i+1 < len(to) {
				to[2*i+1] = math.Float32frombits(uint32(w >> 32))
			}
		}
	}
	for i := range b.Sparse {
		j := &b.Sparse[i]
		n := len(j.Values)
		j.Values = extend(j.Values, len(rows))
		values := j.Values[n:][:len(rows)]
		for t, row := range rows {
			values[t] = row[first+i]
		}
		if b.lists {
			for t := range rows {
				j.Offsets = append(j.Offsets, int32(n+t+1))
			}
		}
	}
}

// Count counts the keys of a batch that are not in their vocabularies, and replaces them by
// KeyUnknown.
func (g *gather) Count(b *Batch) {
	for _, i := range g.vocabs {
		for at, k := range b.Sparse[i].Values {
			if reason := k - KeyUnknown; reason < Reasons {
				g.unknown[Reasons*i+int(reason)]++
				b.Sparse[i].Values[at] = KeyUnknown
			}
		}
	}
}

// Finish moves the rest, counts the unknown keys and completes the batch.
func (g *gather) Finish(b *Batch) {
	g.flush(b)
	g.Count(b)
	g.shape.split(b)
	for i := range b.Sparse {
		if !b.lists {
			b.Sparse[i].Offsets = b.offsetSteps(b.Rows)
		}
	}
	g.shape.rate(b)
}

// lists moves one row of lists. It returns false if the batch would hold too many keys.
func (g *gather) lists(b *Batch, row []uint64) bool {
	if !b.lists {
		b.beginLists()
	}
	b.Rows++
	b.Label = append(b.Label, float32(row[0]&headLabel))
	for i := range g.dense {
		b.Dense = append(b.Dense, float(row[1:], i))
	}
	row = row[g.firstKey():]
	for i := range b.Sparse {
		j := &b.Sparse[i]
		n := int(row[0] &^ hasWeights)
		weighted := row[0]&hasWeights != 0
		keys := row[1 : 1+n]
		row = row[1+n:]
		j.Values = append(j.Values, keys...)
		if len(j.Values) > math.MaxInt32 {
			return false
		}
		j.Offsets = append(j.Offsets, int32(len(j.Values)))
		if weighted {
			for k := range n {
				j.Weights = append(j.Weights, float(row, k))
			}
			row = row[floatWords(n):]
		}
	}
	return true
}

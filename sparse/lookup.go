package sparse

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// Counters returns the counts of this batch's Pull. GradBytesSent is the size of the
// gradients that a Push sends, except for pooled tables.
func (l *Lookup) Counters() Counters {
	c := l.tally
	for r, n := range l.want.gradBytes {
		if r != l.store.rank {
			c.GradBytesSent += int64(n)
		}
	}
	return c
}

// part returns a feature and the offset of part p in its rows. It panics if there is no
// such part, if there are no bags from ≤ b < to, or if a matrix of len values with rows of
// stride cannot hold them.
func (l *Lookup) part(call string, f, p, from, to, length, stride int) (*feature, int, int) {
	if l.state <= prepared {
		panic("sparse: " + call + ": nothing has been pulled into this Lookup")
	}
	if f < 0 || f >= len(l.features) {
		panic(fmt.Sprintf("sparse: %s: feature %d of %d", call, f, len(l.features)))
	}
	x := &l.features[f]
	t := l.store.tables[x.table]
	if p < 0 || p >= t.Parts() {
		panic(fmt.Sprintf("sparse: %s: feature %d: part %d of %d of table %q", call, f, p, t.Parts(), t.Config().Name))
	}
	lo, hi := t.Part(p)
	dim := hi - lo
	if from < 0 || to < from || to > x.bags() {
		panic(fmt.Sprintf("sparse: %s: feature %d: bags %d to %d of %d", call, f, from, to, x.bags()))
	}
	if n := to - from; n > 0 && (stride < dim || length < (n-1)*stride+dim) {
		panic(fmt.Sprintf("sparse: %s: feature %d: %d values with stride %d cannot hold %d bags of dim %d", call, f, length, stride, n, dim))
	}
	return x, lo, dim
}

// Pool writes the pooled values of part p of feature f: the values of bag b to
// dst[b·stride : b·stride+dim], added to the previous values if add is set.
func (l *Lookup) Pool(f, p int, dst []float32, stride int, add bool) {
	l.PoolRange(f, p, 0, l.bags(f), dst, stride, add)
}

// PoolRange is Pool for the bags from ≤ b < to, and writes the values of bag from to the
// start of dst. Several goroutines may call it at once.
func (l *Lookup) PoolRange(f, p, from, to int, dst []float32, stride int, add bool) {
	x, lo, dim := l.part("PoolRange", f, p, from, to, len(dst), stride)
	f32.Pool(dst, stride, l.rows[min(lo, len(l.rows)):], x.between(from, to), dim, add)
}

// PoolGrad is the backward of Pool: it adds the gradient of the pooled values,
// dy[b·stride : b·stride+dim] for bag b, to the gradients of the unique keys.
func (l *Lookup) PoolGrad(f, p int, dy []float32, stride int) {
	l.PoolGradRange(f, p, 0, l.bags(f), dy, stride)
}

// PoolGradRange is PoolGrad for the bags from ≤ b < to, with the gradients of bag from
// at the start of dy. Several goroutines may call it at once for features of different
// tables.
func (l *Lookup) PoolGradRange(f, p, from, to int, dy []float32, stride int) {
	x, lo, dim := l.part("PoolGradRange", f, p, from, to, len(dy), stride)
	if l.state != training {
		panic("sparse: PoolGrad: the Lookup was pulled with insert=false or is pushed already")
	}
	f32.PoolGrad(l.grads[min(lo, len(l.grads)):], x.between(from, to), dy, stride, dim)
}

// bags returns the number of bags of feature f, or 0 if there is no such feature.
func (l *Lookup) bags(f int) int {
	if f < 0 || f >= len(l.features) {
		return 0
	}
	return l.features[f].bags()
}

// NonFinite returns the first key of the batch whose row or gradient has a value that
// is NaN or infinite. It serves to name the key behind a loss that is not finite. In a
// bag that owners pooled, it returns the first key of the bag.
func (l *Lookup) NonFinite() (table string, key uint64, found bool) {
	if l.state <= prepared {
		return "", 0, false
	}
	k, w := 0, 0
	for i, n := range l.want.counts {
		t := i % len(l.store.tables)
		width := l.store.tables[t].Width()
		for range n {
			if !finite(l.rows[w:w+width]) || l.state != reading && !finite(l.grads[w:w+width]) {
				return l.store.name(t), l.want.keys[k], true
			}
			k, w = k+1, w+width
		}
	}
	if l.bagged != nil {
		return l.bagged.nonFinite()
	}
	return "", 0, false
}

// The float32 conversions keep products from being fused with sums where the
// processor could, so that every machine gives the same bits.

package sparse

import "github.com/wdlrun/wdlrun/internal/f32"

// Distinct says how many distinct keys the table of feature f has in the batch, if
// every bag of f is one key that counts once and owners do not pool it; else ok is
// false. Numbers, ReadDistinct and AddDistinct then let a caller that can compute with
// each distinct row once do so.
func (l *Lookup) Distinct(f int) (n int, ok bool) {
	x := &l.features[f]
	if l.store.how[x.table] == Pooled || !x.single {
		return 0, false
	}
	return len(l.place[x.table]), true
}

// Numbers returns which of the distinct rows each bag of feature f is, from 0 on. The
// slice is the Lookup's own.
func (l *Lookup) Numbers(f int) []uint32 { return l.features[f].ids }

// ReadDistinct writes part p of the distinct rows of f's table, by number, to dst.
func (l *Lookup) ReadDistinct(f, p int, dst []float32) {
	t := l.features[f].table
	lo, hi := l.store.tables[t].Part(p)
	f32.Pool(dst, hi-lo, l.rows[min(lo, len(l.rows)):], f32.Bags{At: l.place[t]}, hi-lo, false)
}

// AddDistinct adds the gradients of part p of the distinct rows of f's table, by number:
// what PoolGrad does by bag.
func (l *Lookup) AddDistinct(f, p int, grads []float32) {
	if l.state != training {
		panic("sparse: AddDistinct: the Lookup was pulled with insert=false or is pushed already")
	}
	t := l.features[f].table
	lo, hi := l.store.tables[t].Part(p)
	f32.PoolGrad(l.grads[min(lo, len(l.grads)):], f32.Bags{At: l.place[t]}, grads, hi-lo, hi-lo)
}

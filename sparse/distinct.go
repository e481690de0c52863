package sparse

import "github.com/wdlrun/wdlrun/internal/kernel/f32"

// Values are the values of a feature in a pulled batch, for callers that pool by themselves or
// compute with each distinct row once. The Lookup owns the slices.
type Values struct {
	Offsets []int32   // B+1; nil: each bag has one value
	At      []uint32  // by value: where its row begins in Rows
	Numbers []uint32  // by value: number of its row in Places; nil: owners pool the bags, and each is one value with a row of its own
	Factors []float32 // by value; nil: all 1
	Places  []uint32  // by distinct key of the table: where its row begins in Rows

	Rows, Grads []float32 // rows of all tables and their gradients; no Grads if the Lookup was pulled with insert=false
}

// Values returns the values of feature f.
func (l *Lookup) Values(f int) Values {
	x := &l.features[f]
	v := Values{At: x.at, Factors: x.coefs, Places: l.place[x.table], Rows: l.rows}
	if !x.single {
		v.Offsets = x.offsets
	}
	if l.store.how[x.table] != Pooled {
		v.Numbers = x.ids
	}
	if l.state == training {
		v.Grads = l.grads
	}
	return v
}

// ReadDistinct writes part p of the distinct rows of f's table to dst, in the order of
// Values.Places.
func (l *Lookup) ReadDistinct(f, p int, dst []float32) {
	t := l.features[f].table
	lo, hi := l.store.tables[t].Part(p)
	f32.Pool(dst, hi-lo, l.rows[min(lo, len(l.rows)):], f32.Bags{At: l.place[t]}, hi-lo, false)
}

// AddDistinct adds gradients of part p to the distinct rows of f's table, in the order
// of Values.Places. It replaces PoolGrad.
func (l *Lookup) AddDistinct(f, p int, grads []float32) {
	if l.state != training {
		panic("sparse: AddDistinct: the Lookup was pulled with insert=false or is pushed already")
	}
	t := l.features[f].table
	lo, hi := l.store.tables[t].Part(p)
	f32.PoolGrad(l.grads[min(lo, len(l.grads)):], f32.Bags{At: l.place[t]}, grads, hi-lo, hi-lo)
}

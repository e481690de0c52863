//go:build !noasm

package f32

// vectorFast is Update.Vector of a vector that is not empty, if there is a
// kernel for the rule.
func vectorFast(r Rule, c *constants, w, g, state []float32) bool {
	if active == nil {
		return false
	}
	var s *float32
	if len(state) > 0 {
		s = &state[0]
	}
	pw, pg, n, k, wide := &w[0], &g[0], len(w), &c.scale, active.lanes == 16
	switch {
	case r == SGD && wide:
		vectorSGDAVX512(pw, pg, s, n, k)
	case r == SGD:
		vectorSGDAVX2(pw, pg, s, n, k)
	case r == Adagrad && wide:
		vectorAdagradAVX512(pw, pg, s, n, k)
	case r == Adagrad:
		vectorAdagradAVX2(pw, pg, s, n, k)
	case r == Adam && wide:
		vectorAdamAVX512(pw, pg, s, n, k)
	case r == Adam:
		vectorAdamAVX2(pw, pg, s, n, k)
	case r == FTRL && wide:
		vectorFTRLAVX512(pw, pg, s, n, k)
	case r == FTRL:
		vectorFTRLAVX2(pw, pg, s, n, k)
	default:
		return false
	}
	return true
}

// rowsFast is Update.Rows of at least one row of at least one value, if there is
// a kernel for the rule. Rows of eight values fill an AVX2 register.
func rowsFast(r Rule, c *constants, rows []*float32, n int, p Part, grads []float32, stride int) bool {
	if active == nil {
		return false
	}
	at, g, k, wide := &rows[0], &grads[0], &c.scale, active.lanes == 16 && p.Dim > 8
	silent := min(n, max(0, rowsAhead-(len(rows)-n))) // rows that know of none ahead
	first, last := p.Value, p.Value+p.Dim
	if size := r.StateLen(p.Dim); size > 0 {
		first, last = min(first, p.State), max(last, p.State+size)
	}
	most := min(4*(last-first), 8*64)
	first, last = 4*first, 4*last-1
	switch {
	case r == SGD && wide:
		rowsSGDAVX512(at, n, silent, g, stride, p.Dim, p.Value, p.State, first, most, last, k)
	case r == SGD:
		rowsSGDAVX2(at, n, silent, g, stride, p.Dim, p.Value, p.State, first, most, last, k)
	case r == Adagrad && wide:
		rowsAdagradAVX512(at, n, silent, g, stride, p.Dim, p.Value, p.State, first, most, last, k)
	case r == Adagrad:
		rowsAdagradAVX2(at, n, silent, g, stride, p.Dim, p.Value, p.State, first, most, last, k)
	case r == RowwiseAdagrad:
		rowsRowwiseAVX2(at, n, silent, g, stride, p.Dim, p.Value, p.State, first, most, last, k)
	case r == Adam && wide:
		rowsAdamAVX512(at, n, silent, g, stride, p.Dim, p.Value, p.State, first, most, last, k)
	case r == Adam:
		rowsAdamAVX2(at, n, silent, g, stride, p.Dim, p.Value, p.State, first, most, last, k)
	case r == FTRL && wide:
		rowsFTRLAVX512(at, n, silent, g, stride, p.Dim, p.Value, p.State, first, most, last, k)
	case r == FTRL:
		rowsFTRLAVX2(at, n, silent, g, stride, p.Dim, p.Value, p.State, first, most, last, k)
	default:
		return false
	}
	return true
}

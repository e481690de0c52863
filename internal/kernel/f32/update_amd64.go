//go:build !noasm

package f32

import "unsafe"

// vectorFast is Update.Vector for a non-empty vector. It returns false if there is no
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

// rowsFast is Update.Rows for at least one row of at least one value. It returns false if
// there is no kernel for the rule. AVX-512 takes rows of up to eight values two at a time.
func rowsFast(r Rule, c *constants, rows []Record, n int, mark uint32, p Part, grads []float32, stride int) bool {
	if active == nil {
		return false
	}
	silent := min(n, max(0, rowsAhead-(len(rows)-n))) // rows without a later row to prefetch
	first, last := p.Value, p.Value+p.Dim
	if size := r.StateLen(p.Dim); size > 0 {
		first, last = min(first, p.State), max(last, p.State+size)
	}
	call := rowsCall{
		at: (*byte)(unsafe.Pointer(&rows[0])), n: n, silent: silent, g: &grads[0], stride: stride, Part: p,
		first: 4 * first, most: min(4*(last-first), 8*64), last: 4*last - 1, k: &c.scale, mark: mark,
	}
	switch {
	case r == RowwiseAdagrad:
		rowsRowwiseAVX2(call.at, n, silent, call.g, stride, p.Dim, p.Value, p.State, call.first, call.most, call.last, call.k, mark)
	case active.lanes == 8:
		call.avx2(r)
	case p.Dim > 8:
		call.avx512(r)
	case p.Dim == 8:
		call.eights(r)
	default:
		call.pairs(r)
	}
	return true
}

// rowsCall is the argument of the kernels. They are called by name, so that none of it
// escapes to the heap.
type rowsCall struct {
	at        *byte
	n, silent int
	g         *float32
	stride    int
	Part
	first, most, last int // bytes of a record to prefetch
	k                 *float32
	mark              uint32
}

func (c *rowsCall) avx2(r Rule) {
	switch r {
	case SGD:
		rowsSGDAVX2(c.at, c.n, c.silent, c.g, c.stride, c.Dim, c.Value, c.State, c.first, c.most, c.last, c.k, c.mark)
	case Adagrad:
		rowsAdagradAVX2(c.at, c.n, c.silent, c.g, c.stride, c.Dim, c.Value, c.State, c.first, c.most, c.last, c.k, c.mark)
	case Adam:
		rowsAdamAVX2(c.at, c.n, c.silent, c.g, c.stride, c.Dim, c.Value, c.State, c.first, c.most, c.last, c.k, c.mark)
	case FTRL:
		rowsFTRLAVX2(c.at, c.n, c.silent, c.g, c.stride, c.Dim, c.Value, c.State, c.first, c.most, c.last, c.k, c.mark)
	}
}

func (c *rowsCall) avx512(r Rule) {
	switch r {
	case SGD:
		rowsSGDAVX512(c.at, c.n, c.silent, c.g, c.stride, c.Dim, c.Value, c.State, c.first, c.most, c.last, c.k, c.mark)
	case Adagrad:
		rowsAdagradAVX512(c.at, c.n, c.silent, c.g, c.stride, c.Dim, c.Value, c.State, c.first, c.most, c.last, c.k, c.mark)
	case Adam:
		rowsAdamAVX512(c.at, c.n, c.silent, c.g, c.stride, c.Dim, c.Value, c.State, c.first, c.most, c.last, c.k, c.mark)
	case FTRL:
		rowsFTRLAVX512(c.at, c.n, c.silent, c.g, c.stride, c.Dim, c.Value, c.State, c.first, c.most, c.last, c.k, c.mark)
	}
}

func (c *rowsCall) pairs(r Rule) {
	switch r {
	case SGD:
		pairsSGDAVX512(c.at, c.n, c.silent+1, c.g, c.stride, c.Dim, c.Value, c.State, c.first, c.most, c.last, c.k, c.mark)
	case Adagrad:
		pairsAdagradAVX512(c.at, c.n, c.silent+1, c.g, c.stride, c.Dim, c.Value, c.State, c.first, c.most, c.last, c.k, c.mark)
	case Adam:
		pairsAdamAVX512(c.at, c.n, c.silent+1, c.g, c.stride, c.Dim, c.Value, c.State, c.first, c.most, c.last, c.k, c.mark)
	case FTRL:
		pairsFTRLAVX512(c.at, c.n, c.silent+1, c.g, c.stride, c.Dim, c.Value, c.State, c.first, c.most, c.last, c.k, c.mark)
	}
}

func (c *rowsCall) eights(r Rule) {
	switch r {
	case SGD:
		eightsSGDAVX512(c.at, c.n, c.silent+1, c.g, c.stride, c.Dim, c.Value, c.State, c.first, c.most, c.last, c.k, c.mark)
	case Adagrad:
		eightsAdagradAVX512(c.at, c.n, c.silent+1, c.g, c.stride, c.Dim, c.Value, c.State, c.first, c.most, c.last, c.k, c.mark)
	case Adam:
		eightsAdamAVX512(c.at, c.n, c.silent+1, c.g, c.stride, c.Dim, c.Value, c.State, c.first, c.most, c.last, c.k, c.mark)
	case FTRL:
		eightsFTRLAVX512(c.at, c.n, c.silent+1, c.g, c.stride, c.Dim, c.Value, c.State, c.first, c.most, c.last, c.k, c.mark)
	}
}

//go:build !noasm

package f32

import "unsafe"

// backends returns NEON, which every arm64 CPU has. A vector of its kernels is two
// registers of four floats. It has no kernels for narrow products.
func backends() []*backend {
	return []*backend{{
		name: "NEON", lanes: 8, transpose: transposeNEON, peak: peakNEON,
		panel:      [2]panelKernel{panel1NEON, panel2NEON},
		columnSums: [2]columnSumsKernel{columnSums1NEON, columnSums4NEON},
		elements: elements{axpy: axpyNEON, scale: scaleNEON, reluGrad: reluGradNEON, finite: finiteNEON, mulTo: mulToNEON,
			sigmoid: sigmoidNEON, toBF16: toBF16NEON, fromBF16: fromBF16NEON},
		pool:     [2]bagsKernel{poolNEON, poolWeightedNEON},
		poolGrad: [2]bagsKernel{poolGradNEON, poolGradWeightedNEON}, poolSingles: poolSinglesNEON, poolGradSingles: poolGradSinglesNEON,
		tileSum: [2]tileSumKernel{tileSum1NEON, tileSum8NEON}, tileAdd: tileAddNEON,
		blocks: []block{
			{6, [2]dotKernel{dot6x1NEON, dot6x2NEON}, [2]outerKernel{outer6x1NEON, outer6x2NEON}},
			{4, [2]dotKernel{dot4x1NEON, dot4x2NEON}, [2]outerKernel{outer4x1NEON, outer4x2NEON}},
			{2, [2]dotKernel{dot2x1NEON, dot2x2NEON}, [2]outerKernel{outer2x1NEON, outer2x2NEON}},
			{1, [2]dotKernel{dot1x1NEON, dot1x2NEON}, [2]outerKernel{outer1x1NEON, outer1x2NEON}},
		},
	}}
}

// sumRowsFast sums full vectors and returns the number of elements in them.
func sumRowsFast(dst, rows [][]float32, n int) int {
	if n &^= 7; n > 0 {
		sumRowsNEON(&dst[0], &rows[0], len(dst), len(rows), n)
	}
	return n
}

// sumSquaresFast adds the squares of full vectors of x and returns the number of values in
// them.
func sumSquaresFast(s *[8]float64, x []float32) int {
	n := len(x) &^ 7
	if active == nil || n == 0 {
		return 0
	}
	sumSquaresNEON(&s[0], &x[0], n)
	return n
}

// sigmoidLossFast adds the losses of full vectors of logits and returns the number of
// logits in them.
func sigmoidLossFast(s *[8]float64, grad, logit, label []float32) int {
	n := len(logit) &^ 7
	if active == nil || n == 0 {
		return 0
	}
	sigmoidLossNEON(&s[0], unsafe.SliceData(grad), &logit[0], &label[0], n)
	return n
}

// vectorFast is Update.Vector for a non-empty vector. It returns false if there is no
// kernel for the rule.
func vectorFast(r Rule, c *constants, w, g, state []float32) bool {
	s, n, k := unsafe.SliceData(state), len(w), &c.scale
	switch {
	case active == nil:
		return false
	case r == SGD:
		vectorSGDNEON(&w[0], &g[0], s, n, k)
	case r == Adagrad:
		vectorAdagradNEON(&w[0], &g[0], s, n, k)
	case r == Adam:
		vectorAdamNEON(&w[0], &g[0], s, n, k)
	case r == FTRL:
		vectorFTRLNEON(&w[0], &g[0], s, n, k)
	default:
		return false
	}
	return true
}

// rowsFast is Update.Rows for at least one row of at least one value. It returns false if
// there is no kernel for the rule.
func rowsFast(r Rule, c *constants, rows []Record, n int, mark uint32, p Part, grads []float32, stride int) bool {
	at, g, k := (*byte)(unsafe.Pointer(&rows[0])), &grads[0], &c.scale
	silent := min(n, max(0, rowsAhead-(len(rows)-n))) // rows without a later row to prefetch
	switch {
	case active == nil:
		return false
	case r == SGD:
		rowsSGDNEON(at, n, silent, g, stride, p.Dim, p.Value, p.State, k, mark)
	case r == Adagrad:
		rowsAdagradNEON(at, n, silent, g, stride, p.Dim, p.Value, p.State, k, mark)
	case r == Adam:
		rowsAdamNEON(at, n, silent, g, stride, p.Dim, p.Value, p.State, k, mark)
	case r == FTRL:
		rowsFTRLNEON(at, n, silent, g, stride, p.Dim, p.Value, p.State, k, mark)
	default:
		return false
	}
	return true
}

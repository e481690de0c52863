//go:build !noasm

package f32

import "golang.org/x/sys/cpu"

// backends returns the backends that this CPU can run, the fastest first.
func backends() (all []*backend) {
	x := &cpu.X86
	if !x.HasAVX2 || !x.HasFMA || !x.HasBMI2 || !x.HasPOPCNT {
		return nil
	}
	if x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512BW {
		all = append(all, avx512())
	}
	return append(all, avx2())
}

func avx2() *backend {
	return &backend{
		name: "AVX2", lanes: 8, transpose: transposeAVX2, peak: peakAVX2,
		panel:      [2]panelKernel{panel1AVX2, panel2AVX2},
		columnSums: [2]columnSumsKernel{columnSums1AVX2, columnSums4AVX2}, packsFrom: 192,
		elements: elements{axpy: axpyAVX2, scale: scaleAVX2, reluGrad: reluGradAVX2, finite: finiteAVX2, mulTo: mulToAVX2, dropout: dropoutAVX2,
			sigmoid: sigmoidAVX2, toBF16: toBF16AVX2, fromBF16: fromBF16AVX2},
		pool:     [2]bagsKernel{poolAVX2, poolWeightedAVX2},
		poolGrad: [2]bagsKernel{poolGradAVX2, poolGradWeightedAVX2}, poolSingles: poolSinglesAVX2, poolGradSingles: poolGradSinglesAVX2,
		tileSum: [2]tileSumKernel{tileSum1AVX2, tileSum8AVX2}, tileAdd: tileAddAVX2,
		nonzeros: nonzerosAVX2, sparseRows: sparseRowsAVX2,
		blocks: []block{
			{6, [2]dotKernel{dot6x1AVX2, dot6x2AVX2}, [2]outerKernel{outer6x1AVX2, outer6x2AVX2}},
			{4, [2]dotKernel{dot4x1AVX2, dot4x2AVX2}, [2]outerKernel{outer4x1AVX2, outer4x2AVX2}},
			{2, [2]dotKernel{dot2x1AVX2, dot2x2AVX2}, [2]outerKernel{outer2x1AVX2, outer2x2AVX2}},
			{1, [2]dotKernel{dot1x1AVX2, dot1x2AVX2}, [2]outerKernel{outer1x1AVX2, outer1x2AVX2}},
		},
	}
}

func avx512() *backend {
	return &backend{
		name: "AVX512", lanes: 16, transpose: transposeAVX2, peak: peakAVX512,
		panel:      [2]panelKernel{panel1AVX512, panel2AVX512},
		columnSums: [2]columnSumsKernel{columnSums1AVX512, columnSums4AVX512},
		elements: elements{axpy: axpyAVX512, scale: scaleAVX512, reluGrad: reluGradAVX512, finite: finiteAVX512, mulTo: mulToAVX512, dropout: dropoutAVX2,
			sigmoid: sigmoidAVX512, toBF16: toBF16AVX512, fromBF16: fromBF16AVX512},
		pool:     [2]bagsKernel{poolAVX512, poolWeightedAVX512},
		poolGrad: [2]bagsKernel{poolGradAVX512, poolGradWeightedAVX512}, poolSingles: poolSinglesAVX512, poolGradSingles: poolGradSinglesAVX512,
		narrow:  [2]narrowKernel{narrow16AVX512, narrow8AVX512},
		tileSum: [2]tileSumKernel{tileSum1AVX512, tileSum4AVX512}, tileAdd: tileAddAVX512,
		nonzeros: nonzerosAVX512, sparseRows: sparseRowsAVX512,
		blocks: []block{
			{14, [2]dotKernel{dot14x1AVX512, dot14x2AVX512}, [2]outerKernel{outer14x1AVX512, outer14x2AVX512}},
			{10, [2]dotKernel{dot10x1AVX512, dot10x2AVX512}, [2]outerKernel{outer10x1AVX512, outer10x2AVX512}},
			{8, [2]dotKernel{dot8x1AVX512, dot8x2AVX512}, [2]outerKernel{outer8x1AVX512, outer8x2AVX512}},
			{4, [2]dotKernel{dot4x1AVX512, dot4x2AVX512}, [2]outerKernel{outer4x1AVX512, outer4x2AVX512}},
			{2, [2]dotKernel{dot2x1AVX512, dot2x2AVX512}, [2]outerKernel{outer2x1AVX512, outer2x2AVX512}},
			{1, [2]dotKernel{dot1x1AVX512, dot1x2AVX512}, [2]outerKernel{outer1x1AVX512, outer1x2AVX512}},
		},
	}
}

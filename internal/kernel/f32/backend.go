package f32

// backend is the assembly for one vector width. The features of the CPU select it once; nil
// means the portable code.
type backend struct {
	name  string
	lanes int // floats in a vector; a full panel is two vectors wide

	blocks     []block             // from the tallest to 1 row
	panel      [2]panelKernel      // one masked vector, two
	columnSums [2]columnSumsKernel // one masked vector, four
	packsFrom  int                 // least number of columns for which an outer product packs its factors; 0: never
	transpose  func(dst, src *float32, n, ldd, lds int)

	elements

	pool     [2]bagsKernel // of plain sums, of weighted sums
	poolGrad [2]bagsKernel

	poolSingles, poolGradSingles singlesKernel

	narrow [2]narrowKernel // for 16 columns, for 8; nil with AVX2

	tileSum [2]tileSumKernel // one masked vector, all of a tile
	tileAdd func(tile, x *float32, at *uint32, set *int, n, lists, ldat int)

	nonzeros   nonzerosKernel // nil: zeros are not skipped
	sparseRows sparseRowsKernel

	peak func(n int)
}

// elements are the kernels on vectors.
type elements struct {
	axpy     func(y, x *float32, n int, alpha float32)
	scale    func(x *float32, n int, alpha float32)
	reluGrad func(dy, y *float32, n int)
	mulTo    func(y, x *float32, n int)
	dropout  func(y, mask, x *float32, n int, at uint64, keep uint32, scale float32) // nil with NEON
	finite   func(x *float32, n int) bool
	sigmoid  func(p, logit *float32, n int)
	toBF16   func(dst *uint16, src *float32, n int)
	fromBF16 func(dst *float32, src *uint16, n int)
}

// block is the inner loop of the matrix products for height rows of a result: one vector of
// at most cols columns, or two full ones.
type block struct {
	height int
	dot    [2]dotKernel
	outer  [2]outerKernel
}

type (
	// dotKernel sets c to max(init + a·b, floor), and to 0 where gate is 0. b is a panel;
	// init and gate may be nil.
	dotKernel func(c, a, b, init, gate *float32, k, lda, ldc, cols int, floor float32)
	// outerKernel adds aᵀ·b to c.
	outerKernel func(c, a, b *float32, k, lda, ldb, ldc, cols int)
	// panelKernel copies columns of src to a panel, padded with zeros.
	panelKernel func(dst, src *float32, rows, lds, cols int)
	// tileSumKernel sets rows of y to sums of rows of a tile; init may be nil.
	tileSumKernel func(y, init, tile *float32, at *uint32, n, ldy, lists, ldat, cols int, floor float32)
	// nonzerosKernel lists the non-zero values and the offsets of the rows that they
	// multiply.
	nonzerosKernel func(values *float32, offsets, counts *uint32, a *float32, rows, k, lda int) (n int)
	// sparseRowsKernel is dotKernel on the listed values of a tile. It stops before a row
	// that has a sum of −0. With a nil init it adds to c.
	sparseRowsKernel func(c, panel *float32, far int, values *float32, offsets, counts *uint32, rows, ldc int, init, gate *float32, floor float32) (done int)
	// columnSumsKernel adds the rows of a to sum.
	columnSumsKernel func(sum, a *float32, rows, lda, cols int)
	// bagsKernel sums rows of matrix into bags, or adds bags to the rows.
	bagsKernel func(matrix, bags *float32, stride, n, dim int, offsets *int32, at *uint32, coefs *float32, add int)
	// singlesKernel does the same for bags of one row each. It stops at a row that begins
	// past limit.
	singlesKernel func(matrix *float32, limit int, bags *float32, stride, n, dim int, at *uint32, add int) (left int)
)

// active is the backend of this machine. Only tests change it.
var active = fastest()

func fastest() *backend {
	all := backends()
	if len(all) == 0 {
		return nil
	}
	return all[0]
}

// Backend returns the name of the kernels in use: AVX512, AVX2, NEON or portable.
func Backend() string {
	if active == nil {
		return "portable"
	}
	return active.name
}

// PeakFLOP runs n rounds of multiply-adds on registers and returns the number of
// operations, or 0 for the portable code, which has no such loop. Divided by the time it is
// the upper bound for any matrix product on this core.
func PeakFLOP(n int) int {
	if active == nil || n < 1 {
		return 0
	}
	active.peak(n)
	return n * 12 * 2 * active.lanes
}

// PeakBF16FLOP is PeakFLOP for bfloat16 products in AMX or AVX512_BF16. It returns 0 for
// the portable code.
func PeakBF16FLOP(n int) int {
	if n < 1 {
		return 0
	}
	return peakBF16(n)
}

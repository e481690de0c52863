package f32

import (
	"fmt"
	"unsafe"
)

// Bags are lists of rows of a matrix. Bag b has the rows that begin at matrix[At[i]] for
// Offsets[b] ≤ i < Offsets[b+1]. With nil Offsets bag b has the single row at At[b], and
// Coefs is nil. Coefs has one factor per value; nil means 1.
type Bags struct {
	Offsets []int32
	At      []uint32
	Coefs   []float32
}

// count returns the number of bags.
func (b *Bags) count() int {
	if b.Offsets == nil {
		return len(b.At)
	}
	return max(len(b.Offsets)-1, 0)
}

// of returns the range of values of bag i: lo ≤ j < hi.
func (b *Bags) of(i int) (lo, hi int) {
	if b.Offsets == nil {
		return i, i + 1
	}
	return int(b.Offsets[i]), int(b.Offsets[i+1])
}

// Pool sums the rows of each bag, times their coefficients, in order. It stores the dim
// sums of bag b at dst[b·stride:], added to the previous values if add is set. Products are
// not fused with sums. It panics if an index exceeds a slice.
func Pool(dst []float32, stride int, matrix []float32, bags Bags, dim int, add bool) {
	n := bags.count()
	if n == 0 || dim == 0 {
		return
	}
	checkRows("Pool", len(dst), stride, n, dim)
	if active != nil && bags.Offsets == nil && bags.Coefs == nil {
		runSingles("Pool", active.poolSingles, matrix, bags.At, dst, stride, dim, add)
		return
	}
	bags.check("Pool", len(matrix), dim)
	if active != nil && len(matrix) > 0 {
		flag := 0
		if add {
			flag = 1
		}
		bags.run(&active.pool, matrix, dst, stride, n, dim, flag)
		return
	}
	for b := range n {
		d := dst[b*stride:][:dim]
		if !add {
			clear(d)
		}
		for i, end := bags.of(b); i < end; i++ {
			c := bags.coef(i)
			for j, v := range matrix[bags.At[i]:][:dim] {
				d[j] += float32(c * v)
			}
		}
	}
}

// PoolGrad is the backward of Pool: it adds the gradient of each bag, at dy[b·stride:],
// times the coefficient, to each of its rows of matrix, in order.
func PoolGrad(matrix []float32, bags Bags, dy []float32, stride, dim int) {
	n := bags.count()
	if n == 0 || dim == 0 {
		return
	}
	checkRows("PoolGrad", len(dy), stride, n, dim)
	if active != nil && bags.Offsets == nil && bags.Coefs == nil {
		runSingles("PoolGrad", active.poolGradSingles, matrix, bags.At, dy, stride, dim, false)
		return
	}
	bags.check("PoolGrad", len(matrix), dim)
	if active != nil && len(matrix) > 0 {
		bags.run(&active.poolGrad, matrix, dy, stride, n, dim, 0)
		return
	}
	for b := range n {
		d := dy[b*stride:][:dim]
		for i, end := bags.of(b); i < end; i++ {
			c, row := bags.coef(i), matrix[bags.At[i]:][:dim]
			for j, v := range d {
				row[j] += float32(c * v)
			}
		}
	}
}

func (b *Bags) coef(i int) float32 {
	if b.Coefs == nil {
		return 1
	}
	return b.Coefs[i]
}

// runSingles calls a kernel for n ≥ 1 bags of one row. The kernel checks the rows itself
// and does not access memory outside matrix.
func runSingles(op string, kernel singlesKernel, matrix []float32, at []uint32, of []float32, stride, dim int, add bool) {
	left, limit, flag := len(at), len(matrix)-dim, 0
	if add {
		flag = 1
	}
	if limit >= 0 {
		left = kernel(&matrix[0], limit, &of[0], stride, left, dim, &at[0], flag)
	}
	if left > 0 {
		panic(fmt.Sprintf("f32: %s: a row of %d begins at %d of %d floats", op, dim, at[len(at)-left], len(matrix)))
	}
}

// run calls a kernel for bags that have been checked.
func (b *Bags) run(kernel *[2]bagsKernel, matrix, of []float32, stride, n, dim, add int) {
	at, coefs := unsafe.SliceData(b.At), unsafe.SliceData(b.Coefs)
	weighted := 0
	if coefs != nil {
		weighted = 1
	}
	kernel[weighted](&matrix[0], &of[0], stride, n, dim, &b.Offsets[0], at, coefs, add)
}

// check panics unless every row of every bag is inside a matrix of size floats. The kernels
// do not check indices. The check costs a fraction of the sums.
func (b *Bags) check(op string, size, dim int) {
	first, last := b.span(op)
	var far uint32
	for _, at := range b.At[first:last] {
		far = max(far, at)
	}
	if last > first && int(far)+dim > size {
		panic(fmt.Sprintf("f32: %s: a row of %d begins at %d of %d floats", op, dim, far, size))
	}
}

// span returns the range of values that are in bags. It panics if bags are out of order or
// exceed the values.
func (b *Bags) span(op string) (first, last int) {
	if b.Offsets == nil {
		if b.Coefs != nil {
			panic(fmt.Sprintf("f32: %s: %d coefficients and no offsets", op, len(b.Coefs)))
		}
		return 0, len(b.At)
	}
	first, last = int(b.Offsets[0]), int(b.Offsets[len(b.Offsets)-1])
	for i, o := range b.Offsets[1:] {
		if o < b.Offsets[i] {
			panic(fmt.Sprintf("f32: %s: bag %d ends at %d, before it begins at %d", op, i, o, b.Offsets[i]))
		}
	}
	if first < 0 || last > len(b.At) || b.Coefs != nil && last > len(b.Coefs) {
		panic(fmt.Sprintf("f32: %s: offsets from %d to %d, but %d rows and %d coefficients", op, first, last, len(b.At), len(b.Coefs)))
	}
	return first, last
}

// checkRows panics unless n rows of dim values, stride apart, fit in length.
func checkRows(op string, length, stride, n, dim int) {
	if dim < 0 || stride < 0 || length < (n-1)*stride+dim {
		panic(fmt.Sprintf("f32: %s: %d values with stride %d cannot hold %d rows of %d", op, length, stride, n, dim))
	}
}

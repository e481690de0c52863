package f32

import (
	"fmt"
	"unsafe"
)

// Gather copies Dim floats from Value on of each record to dst[i·stride:]; the
// state of part does not matter. It panics if dst is too short.
func Gather(dst []float32, stride int, rows []*float32, part Part) {
	n := len(rows)
	if n == 0 || part.Dim == 0 {
		return
	}
	checkRows("Gather", len(dst), stride, n, part.Dim)
	if active != nil {
		active.gather(&dst[0], stride, &rows[0], n, part.Dim, part.Value)
		return
	}
	for i, record := range rows {
		copy(dst[i*stride:][:part.Dim], unsafe.Slice(floatAt(record, part.Value), part.Dim))
	}
}

// Bags are lists of rows of a matrix: bag b has the rows that begin at
// matrix[At[i]] for i from Offsets[b] to below Offsets[b+1]. Coefs, by value, may
// be nil: all 1.
type Bags struct {
	Offsets []int32
	At      []uint32
	Coefs   []float32
}

// Pool sums the rows of each bag, times their coefficients, in order: those of
// bag b into dst[b·stride:], dim floats, from 0 or with add from what stands
// there. Products are not fused with sums. It panics if an index reaches past a
// slice.
func Pool(dst []float32, stride int, matrix []float32, bags Bags, dim int, add bool) {
	n := max(len(bags.Offsets)-1, 0)
	if n == 0 || dim == 0 {
		return
	}
	checkRows("Pool", len(dst), stride, n, dim)
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
		for i := bags.Offsets[b]; i < bags.Offsets[b+1]; i++ {
			c := bags.coef(i)
			for j, v := range matrix[bags.At[i]:][:dim] {
				d[j] += float32(c * v)
			}
		}
	}
}

// PoolGrad is the backward of Pool: it adds the gradient of each bag,
// dy[b·stride:], times the coefficient, to each of its rows of matrix, in order.
func PoolGrad(matrix []float32, bags Bags, dy []float32, stride, dim int) {
	n := max(len(bags.Offsets)-1, 0)
	if n == 0 || dim == 0 {
		return
	}
	checkRows("PoolGrad", len(dy), stride, n, dim)
	bags.check("PoolGrad", len(matrix), dim)
	if active != nil && len(matrix) > 0 {
		bags.run(&active.poolGrad, matrix, dy, stride, n, dim, 0)
		return
	}
	for b := range n {
		d := dy[b*stride:][:dim]
		for i := bags.Offsets[b]; i < bags.Offsets[b+1]; i++ {
			c, row := bags.coef(i), matrix[bags.At[i]:][:dim]
			for j, v := range d {
				row[j] += float32(c * v)
			}
		}
	}
}

func (b *Bags) coef(i int32) float32 {
	if b.Coefs == nil {
		return 1
	}
	return b.Coefs[i]
}

// run calls a kernel; bags have been checked.
func (b *Bags) run(kernel *[2]bagsKernel, matrix, of []float32, stride, n, dim, add int) {
	at, coefs := unsafe.SliceData(b.At), unsafe.SliceData(b.Coefs)
	weighted := 0
	if coefs != nil {
		weighted = 1
	}
	kernel[weighted](&matrix[0], &of[0], stride, n, dim, &b.Offsets[0], at, coefs, add)
}

// check panics unless every row of every bag lies in a matrix of size floats:
// the kernels trust the indices. It costs a fraction of the sums.
func (b *Bags) check(op string, size, dim int) {
	first, last := int(b.Offsets[0]), int(b.Offsets[len(b.Offsets)-1])
	for i, o := range b.Offsets[1:] {
		if o < b.Offsets[i] {
			panic(fmt.Sprintf("f32: %s: bag %d ends at %d, before it begins at %d", op, i, o, b.Offsets[i]))
		}
	}
	if first < 0 || last > len(b.At) || b.Coefs != nil && last > len(b.Coefs) {
		panic(fmt.Sprintf("f32: %s: offsets from %d to %d, but %d rows and %d coefficients", op, first, last, len(b.At), len(b.Coefs)))
	}
	var far uint32
	for _, at := range b.At[first:last] {
		far = max(far, at)
	}
	if last > first && int(far)+dim > size {
		panic(fmt.Sprintf("f32: %s: a row of %d begins at %d of %d floats", op, dim, far, size))
	}
}

// checkRows panics unless n rows of dim values, stride apart, fit into length.
func checkRows(op string, length, stride, n, dim int) {
	if dim < 0 || stride < 0 || length < (n-1)*stride+dim {
		panic(fmt.Sprintf("f32: %s: %d values with stride %d cannot hold %d rows of %d", op, length, stride, n, dim))
	}
}

package f32

import "fmt"

// SumRows sets every slice of dst to rows[0] + rows[1] + … + rows[P−1], element by element,
// added in this order. Slices of dst may be slices of rows; the result of partial overlap
// is unspecified. It panics if the lengths differ or if dst or rows is empty.
//
// It is bound by memory: it reads every row and writes every dst once. With AVX2, two rows
// of 64 KiB in a core's cache take 1.2 µs in place.
func SumRows(dst, rows [][]float32) {
	if len(dst) == 0 || len(rows) == 0 {
		panic(fmt.Sprintf("f32: SumRows: %d results of %d rows", len(dst), len(rows)))
	}
	n := len(dst[0])
	for _, d := range dst {
		check("SumRows", "dst", len(d), 1, n)
	}
	for _, r := range rows {
		check("SumRows", "rows", len(r), 1, n)
	}
	done := sumRowsFast(dst, rows, n)
	if done < n {
		sumRows(dst, rows, done, n)
	}
}

// sumRows is the specification, for the elements from lo to hi.
func sumRows(dst, rows [][]float32, lo, hi int) {
	for i := lo; i < hi; i++ {
		sum := rows[0][i]
		for _, r := range rows[1:] {
			sum += r[i]
		}
		for _, d := range dst {
			d[i] = sum
		}
	}
}

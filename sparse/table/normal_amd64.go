//go:build amd64 && !noasm

package table

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// normals writes the next values from the state x on, as many as it can, and returns their
// number.
func normals(c *curves, x uint64, scale float64, w []float32) int {
	curves, n := (*byte)(unsafe.Pointer(c)), len(w)&^7
	switch {
	case !cpu.X86.HasAVX2 || !cpu.X86.HasFMA || len(w) < 3: // two are not worth eight
		return 0
	case n > 0:
		return normalEights(curves, x, scale, &w[0], n)
	}
	var eight [8]float32
	return copy(w, eight[:normalEights(curves, x, scale, &eight[0], 8)])
}

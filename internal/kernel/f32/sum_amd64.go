//go:build amd64 && !noasm

package f32

import "golang.org/x/sys/cpu"

// sumStep is the number of elements per round of the shortest assembly loop.
const sumStep = 8

// sumRowsFast sums as many of the n elements as the assembly can and returns their number.
func sumRowsFast(dst, rows [][]float32, n int) int {
	n -= n % sumStep
	if n == 0 || !cpu.X86.HasAVX2 {
		return 0
	}
	sumRowsAVX2(&dst[0], &rows[0], len(dst), len(rows), n)
	return n
}

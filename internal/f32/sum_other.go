//go:build !amd64 || noasm

package f32

func sumRowsFast(_, _ [][]float32, _ int) int { return 0 }

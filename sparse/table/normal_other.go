//go:build !amd64 || noasm

package table

func normals(*curves, uint64, float64, []float32) int { return 0 }

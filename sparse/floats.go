package sparse

// finite reports whether all x are finite: 0·x is 0 if x is finite, otherwise NaN.
func finite(x []float32) bool {
	var sum float32
	for _, v := range x {
		sum += float32(0 * v)
	}
	return sum == 0
}

func addScaled(dst, x []float32, c float32) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] += float32(c * v)
	}
}

func addTo(dst, x []float32) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] += v
	}
}

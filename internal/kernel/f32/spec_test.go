package f32

// The loops below define the products, written for readability. Kernels and plain loops
// must match them bit by bit.

func specForward(y, x, w, bias []float32, rows, in, out int, relu bool) {
	for r := range rows {
		for j := range out {
			var sum float32
			if bias != nil {
				sum = bias[j]
			}
			for i := range in {
				sum = fused(x[r*in+i], w[i*out+j], sum)
			}
			if relu && sum < 0 {
				sum = 0
			}
			y[r*out+j] = sum
		}
	}
}

func specGradInput(dx, dy, w []float32, rows, in, out int, gate []float32) {
	for r := range rows {
		for i := range in {
			var sum float32
			for j := range out {
				sum = fused(dy[r*out+j], w[i*out+j], sum)
			}
			if gate != nil && gate[r*in+i] == 0 {
				sum = 0
			}
			dx[r*in+i] = sum
		}
	}
}

func specGradWeight(dw, db, x, dy []float32, rows, in, out int) {
	for r := range rows {
		for j := range out {
			if db != nil {
				db[j] += dy[r*out+j]
			}
			for i := range in {
				dw[i*out+j] = fused(x[r*in+i], dy[r*out+j], dw[i*out+j])
			}
		}
	}
}

package f32

// The loops below are what the products mean, written to be read.

func specForward(y, x, w, bias []float32, rows, in, out int, relu bool) {
	for r := range rows {
		for j := range out {
			var sum float32
			if bias != nil {
				sum = bias[j]
			}
			for i := range in {
				sum += x[r*in+i] * w[i*out+j]
			}
			if relu && sum < 0 {
				sum = 0
			}
			y[r*out+j] = sum
		}
	}
}

func specGradInput(dx, dy, w []float32, rows, in, out int) {
	for r := range rows {
		for i := range in {
			var sum float32
			for j := range out {
				sum += dy[r*out+j] * w[i*out+j]
			}
			dx[r*in+i] = sum
		}
	}
}

func specGradWeight(dw, db, x, dy []float32, rows, in, out int) {
	for r := range rows {
		for j := range out {
			db[j] += dy[r*out+j]
			for i := range in {
				dw[i*out+j] += x[r*in+i] * dy[r*out+j]
			}
		}
	}
}

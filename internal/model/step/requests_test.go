package step

import "testing"

// TestRequestsAreSeparate: every combination of requests, of one or many ranks, reaches all
// ranks.
func TestRequestsAreSeparate(t *testing.T) {
	for bits := range 1 << 4 {
		want := Requests{Save: bits&1 > 0, Stop: bits&2 > 0, Compare: bits&4 > 0, Publish: bits&8 > 0}
		for _, asking := range []int{1, 4000} { // of 4000 ranks
			sum, tail := make([]float32, tailWidth), make([]float32, tailWidth)
			for r := range 4000 {
				w := Requests{}
				if r < asking {
					w = want
				}
				w.write(tail)
				for i := range sum {
					sum[i] += tail[i]
				}
			}
			if got := requestsIn(sum); got != want {
				t.Errorf("%+v of %d ranks came as %+v", want, asking, got)
			}
		}
	}
}

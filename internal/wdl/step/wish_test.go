package step

import "testing"

// TestWishesTravelApart: whichever ranks have which wishes, all ranks know each.
func TestWishesTravelApart(t *testing.T) {
	for bits := range 1 << 4 {
		want := Wish{Save: bits&1 > 0, Stop: bits&2 > 0, Look: bits&4 > 0, Publish: bits&8 > 0}
		for _, asking := range []int{1, 4000} { // ranks of 4000 that wish
			sum, tail := make([]float32, tailWidth), make([]float32, tailWidth)
			for r := range 4000 {
				w := Wish{}
				if r < asking {
					w = want
				}
				w.write(tail)
				for i := range sum {
					sum[i] += tail[i]
				}
			}
			if got := wishIn(sum); got != want {
				t.Errorf("%+v of %d ranks came as %+v", want, asking, got)
			}
		}
	}
}

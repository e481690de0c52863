package collective

import (
	"fmt"
	"math"
	"math/bits"
	"testing"
)

// TestPartsArriveByWayOfOthers forwards parts marked with their source and destination, for
// every world size and radix. It counts the rounds and the parts sent.
func TestPartsArriveByWayOfOthers(t *testing.T) {
	type part struct{ from, to int }
	for size := 1; size <= proven; size++ {
		for radix := 2; radix == 2 || radix < 2*size; radix *= 2 {
			t.Run(fmt.Sprintf("P=%d/R=%d", size, radix), func(t *testing.T) {
				here := make([][]part, size) // by rank and distance
				for r := range here {
					for d := range size {
						here[r] = append(here[r], part{r, (r + d) % size})
					}
				}
				rounds, sent := 0, 0
				for _, h := range hopsBruck(nil, size, radix) {
					moving := h.distances(nil, size, radix)
					next := make([][]part, size)
					for r := range here {
						next[r] = append([]part(nil), here[r]...)
					}
					for r := range here {
						for _, d := range moving {
							p, at := here[r][d], (r+h.digit*h.weight)%size
							next[at][d] = p
							// exchangeLengths found the length of this part after as many bits.
							if from := (at - d%(1<<h.behind(radix)) + size) % size; p.from != from {
								t.Fatalf("round %+v: distance %d at rank %d is from rank %d, want %d", h, d, at, p.from, from)
							}
							// deriveLengths computes the length at the destination.
							if b := h.behind(radix); p.to != (at+d>>b<<b)%size {
								t.Fatalf("round %+v: distance %d at rank %d has destination %d", h, d, at, p.to)
							}
						}
					}
					here = next
					rounds, sent = rounds+1, sent+len(moving)
				}
				for r := range here {
					for d, p := range here[r] {
						if want := (part{(r - d + size) % size, r}); p != want {
							t.Fatalf("rank %d has %+v at distance %d, want %+v", r, p, d, want)
						}
					}
				}
				if most := (radix - 1) * ((bits.Len(uint(size-1)) + log2Floor(radix) - 1) / log2Floor(radix)); rounds > most {
					t.Errorf("%d rounds, want at most %d", rounds, most)
				}
				checkRadix(t, size, radix, rounds, sent)
			})
		}
	}
}

// checkRadix compares the rounds and bytes of the cost model with the counted ones, if the model
// uses this radix.
func checkRadix(t *testing.T, size, radix, rounds, sent int) {
	if size == 1 {
		return
	}
	for _, b := range []float64{0, 1e3, 1e6, 1e9} {
		l := Level{Alpha: 1, Beta: 1e-3}
		took, seconds := l.radix(size, b)
		want := float64(rounds)*l.Alpha + b*float64(sent)/float64(size)*l.Beta
		if took == radix && math.Abs(seconds-want) > 1e-9*want {
			t.Errorf("%v bytes: modelled %v s, counted %v", b, seconds, want)
		}
		if radix < size && seconds > want*(1+1e-9) {
			t.Errorf("%v bytes: radix %d takes %v s; the chosen %d takes %v s", b, radix, want, took, seconds)
		}
	}
}

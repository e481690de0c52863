package commit

import "testing"

func TestTermsAreUniqueAndGrow(t *testing.T) {
	seen, last := map[Term]bool{}, Term(0)
	for generation := 1; generation < 4; generation++ {
		for n := 1; n < 4; n++ {
			for by := range 3 {
				term := MakeTerm(generation, n, by)
				if seen[term] || term <= last || term.Generation() != generation {
					t.Fatalf("term %v of generation %d follows %v", term, term.Generation(), last)
				}
				seen[term], last = true, term
			}
			if next := last.Next(); next <= last || next.Generation() != generation || next != MakeTerm(generation, n+1, 2) {
				t.Fatalf("%v follows %v", next, last)
			}
		}
	}
}

func TestPlacesAreInSlotOrder(t *testing.T) {
	last := -1
	for slot := range MaxSlots {
		for _, attempt := range []int{0, 1, maxTries} {
			p := Piece{Slot: slot, Attempt: attempt}.Place()
			if p <= last || p != (Tag{Slot: slot, Attempt: attempt}).Place() {
				t.Fatalf("slot %d, attempt %d has place %d after %d", slot, attempt, p, last)
			}
			last = p
		}
	}
}

package commit

import (
	"strings"
	"testing"
)

// TestBackupsOfTwoRanks: one backup is half of a step, and pays where the other rank
// takes more than twice as long; where it does not pay, that is said once, with why.
func TestBackupsOfTwoRanks(t *testing.T) {
	c := NewCoordinator(Config{Mode: Drop, Workers: 2, Slots: 2, Auto: true, Replicas: 2, Owners: []int{0}}, MakeTerm(0, 1, 2))
	measure := func(first, second float64) (told []Note) {
		c.notes = nil
		c.gaps.sums, c.gaps.steps = []float64{window * first, window * second}, window
		c.adapt()
		return c.notes
	}
	told := measure(0.004, 0.007)
	if len(told) != 1 || told[0].Event != Stayed || c.Backup() != 0 ||
		!strings.Contains(told[0].Text, "slot 2 of 2 came after 7 ms on average, slot 1 after 4 ms: without waiting for the last, a step would have 1 of 2 microbatches, 0.88× the samples per second") {
		t.Errorf("%+v, b = %d", told, c.Backup())
	}
	if told = measure(0.004, 0.007); len(told) != 0 || c.Backup() != 0 {
		t.Errorf("said again: %+v, b = %d", told, c.Backup())
	}
	if told = measure(0.001, 0.008); len(told) != 1 || told[0].Event != Adapted || c.Backup() != 1 || !strings.Contains(told[0].Text, "backups 0 → 1") {
		t.Errorf("%+v, b = %d", told, c.Backup())
	}
}

package slots

import (
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestBackupsOfTwoRanks: one backup is half of a step. It is used if the other rank takes
// more than twice as long; otherwise the reason is reported once.
func TestBackupsOfTwoRanks(t *testing.T) {
	m, _, err := New(Config{Mode: Drop, Ranks: 2, Auto: true}, Record{})
	fatal.If(t, err)
	measure := func(first, second float64) (text string) {
		m.clear()
		m.gaps.sums, m.gaps.steps = []float64{window * first, window * second}, window
		m.adapt()
		return m.out.Text
	}
	text := measure(0.004, 0.007)
	if m.Backup() != 0 ||
		!strings.Contains(text, "slot 2 of 2 came after 7 ms on average, slot 1 after 4 ms: without waiting for the last, a step would have 1 of 2 microbatches, 0.88× the samples per second") {
		t.Errorf("%+v, b = %d", text, m.Backup())
	}
	if text = measure(0.004, 0.007); text != "" || m.Backup() != 0 {
		t.Errorf("repeated: %+v, b = %d", text, m.Backup())
	}
	if text = measure(0.001, 0.008); m.Backup() != 1 || !strings.Contains(text, "backups 0 → 1") {
		t.Errorf("%+v, b = %d", text, m.Backup())
	}
}

package apply

import (
	"testing"
	"time"
)

// TestProgressOfImportance is printed every two seconds, and not at the end.
func TestProgressOfImportance(t *testing.T) {
	now := time.Unix(100, 0)
	p := importancePace{total: 8, shown: now}
	var lines []string
	for range p.total {
		now = now.Add(700 * time.Millisecond)
		if line := p.advance(now, 14); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) != 2 || lines[0] != "importance of 14 fields: 37 % of the samples" || lines[1] != "importance of 14 fields: 75 % of the samples" {
		t.Errorf("%q", lines)
	}
}

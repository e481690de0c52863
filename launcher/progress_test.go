package launcher

import (
	"io"
	"testing"

	"github.com/wdlrun/wdlrun/rank"
)

// TestNewProgress: a coordinator in rank 0 reports steps to a progress display as to the host of
// a job.
func TestNewProgress(t *testing.T) {
	p := NewProgress(io.Discard)
	p.Formed(nil)
	for step := range int64(3) {
		p.Status(0, rank.Status{Step: step, Samples: 256 * step})
	}
	p.Ended(nil)
}

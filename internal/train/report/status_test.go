package report

import (
	"testing"

	"github.com/wdlrun/wdlrun/trace"
)

// TestWhereAFailedStepStood: after a failed step, the status has the position of the closed
// reader for that step only.
func TestWhereAFailedStepStood(t *testing.T) {
	var s Status
	rec, at := trace.New(8), "a.csv offset 7, row 1"
	s.Unread() // no reader was open
	s.stood.Store(&at)
	for phase := range trace.Phases {
		rec.Enter(trace.Phase(phase))
		want := ""
		if p := trace.Phase(phase); p == trace.Input || p == trace.Pull || p == trace.Compute || p == trace.Push || p == trace.Sync || p == trace.Update {
			want = at
		}
		if got := s.Now(rec).Position; got != want {
			t.Errorf("in phase %v at %q, want %q", trace.Phase(phase), got, want)
		}
	}
}

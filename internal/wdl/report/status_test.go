package report

import (
	"testing"

	"github.com/wdlrun/wdlrun/trace"
)

// TestWhereAFailedStepStood: where a reader stood that is closed since a step has failed is
// told of that step, and of nothing else.
func TestWhereAFailedStepStood(t *testing.T) {
	var s Status
	rec, at := trace.New(8), "a.csv offset 7, row 1"
	s.Unread() // none was open
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

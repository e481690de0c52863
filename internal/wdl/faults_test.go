package wdl

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/internal/chaos"
	"github.com/wdlrun/wdlrun/internal/wdl/save"
	"github.com/wdlrun/wdlrun/trace"
)

// TestOneLineAFault: ranks that the same fault befalls at once note it once between them.
func TestOneLineAFault(t *testing.T) {
	dir := t.TempDir()
	faults, err := chaos.Parse("kill:1@step5,cut:0-1@step7,diskfull@step9")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, save.FileChaos), []byte("ranks 8\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	var ranks sync.WaitGroup
	for range 8 {
		ranks.Go(func() {
			for n, f := range faults[:2] {
				if err := addStruck(dir, n, f); err != nil {
					t.Error(err)
				}
			}
		})
	}
	ranks.Wait()
	s, err := readStruck(dir)
	if err != nil || s.Ranks != 8 || len(s.Been) != 2 || s.Been[0]+s.Been[1] != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	been, err := FaultsOnPurpose(dir)
	if err != nil || len(been) != 2 || been[0] == been[1] || been[s.Been[1]] != faults[1] && been[s.Been[0]] != faults[1] {
		t.Errorf("%v, %v", been, err)
	}
}

// TestWhereAFailedStepStood: where a reader stood that is closed since a step has failed is
// told of that step, and of nothing else.
func TestWhereAFailedStepStood(t *testing.T) {
	j, at := NewJob(nil, trace.New(8), Options{}), "a.csv offset 7, row 1"
	j.shown.unread() // none was open
	j.shown.stood.Store(&at)
	for phase := range trace.Phases {
		j.rec.Enter(trace.Phase(phase))
		want := ""
		if p := trace.Phase(phase); p == trace.Input || p == trace.Pull || p == trace.Compute || p == trace.Push || p == trace.Sync || p == trace.Update {
			want = at
		}
		if got := j.Status().Position; got != want {
			t.Errorf("in phase %v at %q, want %q", trace.Phase(phase), got, want)
		}
	}
}

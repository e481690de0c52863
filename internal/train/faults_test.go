package train

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/chaos"
)

// TestOneLineAFault: a fault that affects several ranks is recorded once.
func TestOneLineAFault(t *testing.T) {
	dir := t.TempDir()
	faults, err := chaos.Parse("kill:1@step5,cut:0-1@step7,diskfull@step9")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, rundir.FileChaos), []byte("ranks 8\n"), 0o600)
	}
	fatal.If(t, err)
	var ranks sync.WaitGroup
	for range 8 {
		ranks.Go(func() {
			for n, f := range faults[:2] {
				if err := addInjected(dir, n, f); err != nil {
					t.Error(err)
				}
			}
		})
	}
	ranks.Wait()
	s, err := readInjected(dir)
	if err != nil || s.Ranks != 8 || len(s.Been) != 2 || s.Been[0]+s.Been[1] != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	been, err := InjectedFaults(dir)
	if err != nil || len(been) != 2 || been[0] == been[1] || been[s.Been[1]] != faults[1] && been[s.Been[0]] != faults[1] {
		t.Errorf("%v, %v", been, err)
	}
}

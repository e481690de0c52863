package jobs

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestAKilledSweepEndsItsTrainings: if a sweep is killed, its trainings end. Otherwise -resume
// would find their run directories in use.
func TestAKilledSweepEndsItsTrainings(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "space.yaml", "train.l2.deep: {log: [1e-6, 1e-3]}\n")
	cmd := command(t, dir, "sweep", "-space", "space.yaml", "-trials", "1", "-set", "data.valid_fraction=0.2", "-set", "train.epochs=100000")
	cmd.Env = append(os.Environ(), "FOLDER="+dir) // below finds all processes by this variable
	fatal.If(t, cmd.Start())
	eventually(t, "a training", func() bool {
		all, err := filepath.Glob(filepath.Join(dir, "sweeps", "*", "trial-0001", "metrics.jsonl"))
		return err == nil && len(all) == 1
	})
	kill(t, cmd.Process.Pid, syscall.SIGKILL)
	cmd.Wait()
	eventually(t, "the end of the training", func() bool { return len(below(dir)) == 0 })
}

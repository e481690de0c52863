package jobs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestOneOfSeveral: no process that another launcher started as one of several trains alone, or
// starts a job of its own.
func TestOneOfSeveral(t *testing.T) {
	t.Parallel()
	prte := []string{"PMIX_RANK=1", "PMIX_NAMESPACE=prterun-vm-21708@1"}
	mpi := []string{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4"}
	const unknown = `PMIX_RANK="1", PMIX_NAMESPACE="prterun-vm-21708@1": this process seems to be one of several, but their number is unknown; set WDLRUN_RANK, WDLRUN_SIZE, `
	const nested = `this process is rank 1 of 4 that openmpi started (OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="4"), and each would start a job of its own: `
	for _, x := range []struct {
		env  []string
		args string
		code int
		want string
	}{
		{prte, "train", 1, unknown},
		{prte, "train -plan", 1, unknown},
		{prte, "-np 2 train", 1, unknown},
		{prte, "-plan", 1, unknown},
		{prte, "eval -resume runs", 1, unknown},
		{prte, "doctor", 1, unknown},
		{prte, "bench step", 1, unknown},
		{prte, "true", 1, unknown},
		{append(prte, "WDLRUN_SIZE=1"), "sh -c echo$IFS$WDLRUN_RANK$IFS$WDLRUN_SIZE", 0, "0 1"},
		{mpi, "-np 2 train", 1, nested},
		{mpi, "-np 2 train -plan", 1, nested},
		{mpi, "-np 2 doctor", 1, nested},
		{mpi, "true", 1, nested},
		{append(mpi, "WDLRUN_SIZE=1"), "-np 2 true", 0, ""},
	} {
		dir := t.TempDir()
		cmd := command(t, dir, strings.Fields(x.args)...)
		cmd.Env = append(os.Environ(), x.env...)
		fatal.If(t, cmd.Start())
		o := end(t, cmd)
		if o.code != x.code || !strings.Contains(o.stdout+o.stderr, x.want) {
			t.Errorf("%s %s: exit code %d, want %d and %q:\n%s%s", x.env, x.args, o.code, x.code, x.want, o.stdout, o.stderr)
		}
		if runs, _ := filepath.Glob(filepath.Join(dir, "runs")); len(runs) > 0 {
			t.Errorf("%s %s: a run directory was created", x.env, x.args)
		}
	}
}

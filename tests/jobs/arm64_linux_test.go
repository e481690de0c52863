package jobs

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestArm64ContinuesWithTheSameBits trains on this machine and on an emulated arm64 one, each
// from the start and from the other's checkpoint of step 25. All four have the same parameters,
// rows and optimizer state after 50 steps and at the end.
func TestArm64ContinuesWithTheSameBits(t *testing.T) {
	patient.Long(t)
	const emulator = "qemu-aarch64-static"
	if _, err := exec.LookPath(emulator); err != nil || runtime.GOARCH == "arm64" {
		t.Skipf("%s is not on the PATH (Debian: qemu-user-static), or this is arm64", emulator)
	}
	t.Parallel()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-ldflags=-w", "-o", filepath.Join(dir, "arm64"), "../../cmd/wdlrun")
	build.Env = append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build for arm64: %v\n%s", err, out)
	}
	job := []string{"-set", "train.global_batch=652", "-set", "train.epochs=1", "-set", "model.hidden=[16,8]",
		"-set", "train.checkpoint.every_steps=25", "-set", "train.checkpoint.keep=9"}
	here, there := part(t, dir, "here", job), part(t, dir, "there", job, emulator, filepath.Join(dir, "arm64"))
	const early, middle, last = "step-000000025", "step-000000050", "step-000000081"
	for _, other := range []string{
		there,
		part(t, dir, "from-there", []string{"-resume", filepath.Join(there, early)}),
		part(t, dir, "from-here", []string{"-resume", filepath.Join(here, early)}, emulator, filepath.Join(dir, "arm64")),
	} {
		for _, step := range []string{middle, last} {
			o := run(t, dir, "ckpt", "diff", filepath.Join(here, step), filepath.Join(other, step))
			if o.code != 0 || !strings.HasPrefix(o.stdout, "all ") {
				t.Errorf("%s of %s differs from the training here:\n%s%s", step, other, o.stdout, o.stderr)
			}
		}
	}
}

// part trains as the only rank of a job, without a launcher, and returns the folder of
// checkpoints. It prepends the command before, such as an emulator with its binary, to the
// arguments. Without before it runs the binary built here.
func part(t *testing.T, dir, out string, args []string, before ...string) string {
	t.Helper()
	cmd := command(t, dir, append([]string{"train", "-out", out}, args...)...)
	if len(before) > 0 {
		path, err := exec.LookPath(before[0])
		fatal.If(t, err)
		cmd.Path, cmd.Args = path, append(before, cmd.Args[1:]...)
	}
	cmd.Env = append(os.Environ(), "WDLRUN_RANK=0", "WDLRUN_SIZE=1", "WDLRUN_LOCAL_RANK=0", "WDLRUN_LOCAL_SIZE=1", "WDLRUN_RENDEZVOUS="+t.TempDir())
	fatal.If(t, cmd.Start())
	if o := end(t, cmd); o.code != 0 {
		t.Fatalf("%v: exit code %d\n%s%s", cmd.Args, o.code, o.stdout, o.stderr)
	}
	found, err := filepath.Glob(filepath.Join(dir, out, "2*", "checkpoints"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v: checkpoints are in %v (%v), want one folder", cmd.Args, found, err)
	}
	return found[0]
}

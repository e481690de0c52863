package jobs

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestBF16IsRefusedBeforeRanksStart: a machine without bfloat16 rejects it with a one-line
// error, but only if it has to run a rank. The test disables AVX-512, so bfloat16 is not
// available.
func TestBF16IsRefusedBeforeRanksStart(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	const bf16 = "train.precision=bf16"
	if o := run(t, dir, "-np", "2", "-H", "elsewhere.invalid:2", "train", "-plan", "-set", bf16); o.code != 0 {
		t.Errorf("a plan for another machine: exit code %d\n%s", o.code, o.stderr)
	}
	for _, args := range [][]string{
		{"-np", "2", "train", "-set", bf16},
		{"-np", "2", "train", "-plan", "-set", bf16},
		{"-np", "2", "bench", "step", "-bf16"},
	} {
		o := runWith(t, dir, "GODEBUG=cpu.avx512f=off", args...)
		if o.code == 0 || !strings.Contains(o.stderr, "use fp32") || strings.Contains(o.stderr, "rank 0") || strings.Count(o.stderr, "\n") != 1 {
			t.Errorf("%q: exit code %d\n%s", args, o.code, o.stderr)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files were left: %v, %v", left, err)
	}
}

// TestAutoWithoutGPUs: with train.device: auto the CPU trains if this build does not support
// GPUs.
func TestAutoWithoutGPUs(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	o := run(t, t.TempDir(), append([]string{"-np", "2", "train", "-device", "auto", "-set", "train.epochs=1"}, few(t)...)...)
	if o.code != 0 || strings.Count(o.stderr, "train.device: auto: the CPU computes: rank 0: this program was built without support for GPUs; -device gpu prints what is missing\n") != 1 {
		t.Errorf("exit code %d\n%s", o.code, o.stderr)
	}
}

// TestBF16LearnsAsMuch: the same training in bfloat16 reaches the same AUC within .001. Its bits
// differ from float32.
func TestBF16LearnsAsMuch(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	if err := f32.NoBF16(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	exact := train(t, dir, 1)
	half := train(t, dir, 1, "-set", "train.precision=bf16")
	if math.Abs(half.AUC-exact.AUC) > .001 || half.Steps != exact.Steps {
		t.Errorf("AUC %v after %d steps, in float32 %v after %d", half.AUC, half.Steps, exact.AUC, exact.Steps)
	}
	if half.TrainLogLoss == exact.TrainLogLoss {
		t.Errorf("float32 and bfloat16 have the same log-loss, %v", half.TrainLogLoss)
	}
}

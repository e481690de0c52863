package jobs

import (
	"bytes"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestLostHostOfRankZero: the host of rank 0 freezes, with the lock of the run directory on a shared
// disk. With -min-np the training continues without it. When the host continues during the rest of
// the training, its processes change nothing: the bits are those of an undisturbed training.
func TestLostHostOfRankZero(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	client, homes := fakeSSH(t, login)
	dir := t.TempDir()
	flags := append(few(t), "-set", "train.slots=4", "-set", "train.checkpoint.every_steps=5", "-set", "train.epochs=6")
	calm := train(t, dir, 1, append(flags, "-out", "calm")...)
	var out, lines bytes.Buffer
	cmd := command(t, dir, append([]string{"-H", "a:2,b:2", "-ssh", client, "-restarts", "3", "-min-np", "2", "train", "--json"}, flags...)...)
	cmd.Stdout, cmd.Stderr = &out, &lines
	fatal.If(t, cmd.Start())
	committed := func() string {
		found, _ := filepath.Glob(filepath.Join(dir, "runs/2*/checkpoints/step-*"))
		return strings.Join(found, " ")
	}
	eventually(t, "a checkpoint", func() bool { return committed() != "" })
	frozen := below(filepath.Join(homes, "a"))
	for _, pid := range frozen {
		syscall.Kill(pid, syscall.SIGSTOP)
	}
	time.Sleep(time.Second) // of a checkpoint that is under way, all other parts are written
	before := committed()
	eventually(t, "a checkpoint of the next generation", func() bool { return committed() != before })
	for _, pid := range frozen {
		syscall.Kill(pid, syscall.SIGCONT)
	}
	err := cmd.Wait()
	got := parseTrained(t, outcome{stdout: out.String(), stderr: lines.String()})
	if err != nil || got.AUC != calm.AUC || got.LogLoss != calm.LogLoss || strings.Contains(lines.String(), "is in use by") {
		t.Errorf("%v, %+v, undisturbed %+v\n%s", err, got, calm, lines.String())
	}
	if o := run(t, dir, "ckpt", "verify", filepath.Dir(filepath.Dir(strings.Fields(committed())[0]))); o.code != 0 {
		t.Errorf("the checkpoints are damaged: %s%s", o.stdout, o.stderr)
	}
}

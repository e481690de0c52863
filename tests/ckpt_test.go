package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCkpt looks at the checkpoints of a training as a user does.
func TestCkpt(t *testing.T) {
	dir := t.TempDir()
	r := train(t, dir, 2, append([]string{"-set", "train.checkpoint.keep=3"}, short...)...)
	var shown struct {
		Checkpoints []struct {
			Dir       string
			Step      int64
			WorldSize int `json:"world_size"`
		}
	}
	ckpt := func(want int, args ...string) outcome {
		t.Helper()
		o := run(t, dir, append([]string{"ckpt"}, args...)...)
		if o.code != want {
			t.Fatalf("%v: exit code %d\n%s%s", args, o.code, o.stdout, o.stderr)
		}
		return o
	}
	show := func() {
		t.Helper()
		if err := json.Unmarshal([]byte(ckpt(0, "show", "--json", r.RunDir).stdout), &shown); err != nil {
			t.Fatal(err)
		}
	}
	if show(); len(shown.Checkpoints) != 3 || shown.Checkpoints[0].Step != r.Steps || shown.Checkpoints[2].WorldSize != 2 {
		t.Fatalf("%+v", shown)
	}
	last, before := shown.Checkpoints[0].Dir, shown.Checkpoints[1].Dir
	if o := ckpt(0, "show", last); !strings.Contains(o.stdout, fmt.Sprintf("step %d, %d samples, 2 epochs", r.Steps, r.Samples)) || !strings.Contains(o.stdout, "sparse/age ") {
		t.Error(o.stdout)
	}
	ckpt(0, "verify", r.RunDir)
	if o := ckpt(0, "diff", last, last); !strings.Contains(o.stdout, "the same") {
		t.Error(o.stdout)
	}
	if o := ckpt(1, "diff", last, before); !strings.Contains(o.stdout, "dense ") || strings.Contains(o.stdout, "encoder") {
		t.Error(o.stdout)
	}
	files, _ := filepath.Glob(filepath.Join(dir, before, "*.wck"))
	b, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/3] ^= 4
	if err := os.WriteFile(files[1], b, 0o644); err != nil {
		t.Fatal(err)
	}
	o := ckpt(1, "verify", r.RunDir)
	if strings.Count(o.stdout, "whole ") != 2 || !strings.Contains(o.stdout, "DAMAGED  "+before) || !strings.Contains(o.stdout, filepath.Base(files[1])) {
		t.Error(o.stdout)
	}
	ckpt(0, "prune", "-keep", "1", "-dry-run", r.RunDir)
	if show(); len(shown.Checkpoints) != 3 {
		t.Errorf("a dry run removed: %+v", shown)
	}
	ckpt(0, "prune", "-keep", "1", r.RunDir)
	if show(); len(shown.Checkpoints) != 1 || shown.Checkpoints[0].Dir != last {
		t.Errorf("%+v", shown)
	}
	for _, wrong := range [][]string{{"prune", "-keep", "0", r.RunDir}, {"show"}, {"show", "nowhere"}, {"diff", last}, {"verfy"}} {
		if o := ckpt(1, wrong...); !strings.HasPrefix(o.stderr, "wdlrun: ") || strings.Count(o.stderr, "\n") != 1 {
			t.Errorf("%v: %s", wrong, o.stderr)
		}
	}
}

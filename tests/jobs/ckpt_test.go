package jobs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// TestCkpt runs the ckpt commands on the checkpoints of a training.
func TestCkpt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := train(t, dir, 2, append([]string{"-set", "train.checkpoint.keep=3", "-set", "train.checkpoint.full_every=1"}, few(t)...)...)
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
		fatal.If(t, json.Unmarshal([]byte(ckpt(0, "show", "--json", r.RunDir).stdout), &shown))
	}
	if show(); len(shown.Checkpoints) != 3 || shown.Checkpoints[0].Step != r.Steps || shown.Checkpoints[2].WorldSize != 2 {
		t.Fatalf("ckpt show: %+v, want 3 checkpoints", shown)
	}
	last, before := shown.Checkpoints[0].Dir, shown.Checkpoints[1].Dir
	if o := ckpt(0, "show", last); !strings.Contains(o.stdout, fmt.Sprintf("step %d, %d samples, 2 epochs", r.Steps, r.Samples)) || !strings.Contains(o.stdout, "sparse/age ") {
		t.Error(o.stdout)
	}
	ckpt(0, "verify", r.RunDir)
	if o := ckpt(0, "diff", last, last); !strings.Contains(o.stdout, "the same") {
		t.Error(o.stdout)
	}
	if o := ckpt(1, "show", "nowhere"); !strings.Contains(o.stderr, "there is no directory nowhere: give a run directory") {
		t.Error(o.stderr)
	}
	if o := ckpt(1, "diff", last, before); !strings.Contains(o.stdout, "dense ") || strings.Contains(o.stdout, "encoder") {
		t.Error(o.stdout)
	}
	files, _ := filepath.Glob(filepath.Join(dir, before, "*.wck"))
	b, err := os.ReadFile(files[1])
	fatal.If(t, err)
	b[len(b)/3] ^= 4
	fatal.If(t, os.WriteFile(files[1], b, 0o644))
	o := ckpt(1, "verify", r.RunDir)
	if strings.Count(o.stdout, "intact ") != 2 || !strings.Contains(o.stdout, "DAMAGED  "+before) || !strings.Contains(o.stdout, filepath.Base(files[1])) {
		t.Error(o.stdout)
	}
	ckpt(0, "prune", "-keep", "1", "-dry-run", r.RunDir)
	if show(); len(shown.Checkpoints) != 3 {
		t.Errorf("a dry run removed checkpoints: %+v", shown)
	}
	ckpt(0, "prune", "-keep", "1", r.RunDir)
	if show(); len(shown.Checkpoints) != 1 || shown.Checkpoints[0].Dir != last {
		t.Errorf("after ckpt prune -keep 1: %+v", shown)
	}
	for _, wrong := range [][]string{{"prune", "-keep", "0", r.RunDir}, {"show"}, {"show", "nowhere"}, {"diff", last}, {"verfy"}} {
		if o := ckpt(1, wrong...); !strings.HasPrefix(o.stderr, "wdlrun: ") || strings.Count(o.stderr, "\n") != 1 {
			t.Errorf("ckpt %v: want a one-line error: %s", wrong, o.stderr)
		}
	}
}

// TestCkptChains runs the ckpt commands on incremental checkpoints.
func TestCkptChains(t *testing.T) {
	patient.Long(t)
	t.Parallel()
	dir := t.TempDir()
	chains, fulls := train(t, dir, 2, few(t)...), train(t, dir, 2, append([]string{"-set", "train.checkpoint.full_every=1"}, few(t)...)...)
	step := func(r trained, n int) string {
		return filepath.Join(r.RunDir, "checkpoints", fmt.Sprintf("step-%09d", n))
	}
	o := run(t, dir, "ckpt", "show", chains.RunDir)
	if !strings.Contains(o.stdout, "changes since 220") || !strings.Contains(o.stdout, "  full  ") {
		t.Error(o.stdout)
	}
	if o = run(t, dir, "ckpt", "show", step(chains, 240)); !strings.Contains(o.stdout, "format version 2, changes since 220") || !strings.Contains(o.stdout, "delta/age_x_education ") || !strings.Contains(o.stdout, "sparse/age ") {
		t.Error(o.stdout)
	}
	// Only the configuration differs.
	if o = run(t, dir, "ckpt", "diff", step(chains, 240), step(fulls, 240)); o.code != 1 || strings.Contains(o.stdout, "sparse/") || strings.Contains(o.stdout, "dense") || !strings.Contains(o.stdout, "config ") {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	files, _ := filepath.Glob(filepath.Join(dir, step(chains, 220), "*.wck"))
	fatal.If(t, os.Truncate(files[0], 100))
	o = run(t, dir, "ckpt", "verify", chains.RunDir)
	if o.code != 1 || !strings.Contains(o.stdout, "DAMAGED  "+step(chains, 240)) || !strings.Contains(o.stdout, "step 220") || !strings.Contains(o.stdout, "intact   "+step(chains, 200)) {
		t.Errorf("exit code %d\n%s", o.code, o.stdout)
	}
}

// TestCkptPruneKeepsWholeOnes: prune does not count a damaged checkpoint as one to keep, whether
// the file is truncated or has a changed byte. It names the damaged checkpoint and the best one.
func TestCkptPruneKeepsWholeOnes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := train(t, dir, 1, append([]string{"-set", "train.checkpoint.keep=4", "-set", "train.checkpoint.full_every=1", "-set", "train.early_stop.patience=9", "-set", "data.valid_fraction=0.1"}, few(t)...)...)
	all, _ := filepath.Glob(filepath.Join(dir, r.RunDir, "checkpoints", "step-*"))
	if len(all) < 4 {
		t.Fatalf("the checkpoints are %v", all)
	}
	name := func(fromEnd int) string {
		return filepath.Join(r.RunDir, "checkpoints", filepath.Base(all[len(all)-fromEnd]))
	}
	o := run(t, dir, "ckpt", "show", r.RunDir)
	if n := strings.Count(o.stdout, "full, best epoch"); n != 1 {
		t.Errorf("the best epoch is named %d times:\n%s", n, o.stdout)
	}
	files := func(fromEnd int) []string {
		parts, _ := filepath.Glob(filepath.Join(dir, name(fromEnd), "*.wck"))
		return parts
	}
	if err := os.Truncate(files(1)[0], 100); err != nil { // cannot be opened
		t.Fatal(err)
	}
	b, err := os.ReadFile(files(2)[0]) // can be opened, but has a wrong checksum
	fatal.If(t, err)
	b[len(b)/3] ^= 4
	fatal.If(t, os.WriteFile(files(2)[0], b, 0o644))
	o = run(t, dir, "ckpt", "show", r.RunDir)
	lines := strings.Split(o.stdout, "\n")
	if !strings.HasPrefix(lines[1], fmt.Sprint(r.Steps, " ")) || !strings.Contains(lines[1], "DAMAGED") || !strings.HasSuffix(lines[1], name(1)) || !strings.Contains(o.stdout, fmt.Sprintf("\n\nstep %d: checkpoint: ", r.Steps)) {
		t.Error(o.stdout)
	}
	o = run(t, dir, "ckpt", "prune", "-keep", "1", r.RunDir)
	if o.code != 0 || !strings.Contains(o.stdout, "left "+name(1)+", which is damaged") || !strings.Contains(o.stdout, "left "+name(2)+", which is damaged") {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	if o = run(t, dir, "ckpt", "verify", name(3)); o.code != 0 {
		t.Errorf("the newest undamaged checkpoint was removed:\n%s%s", o.stdout, o.stderr)
	}
}

// TestALinkedCheckpoint: a checkpoint that was moved to another disk and linked is shown, verified
// and resumed from. Prune removes the link and says what stays. A link with the name of an
// unfinished checkpoint ends a resume, and what it leads to is untouched.
func TestALinkedCheckpoint(t *testing.T) {
	t.Parallel()
	dir, disk := t.TempDir(), t.TempDir()
	r := train(t, dir, 1, append([]string{"-set", "train.checkpoint.keep=9", "-set", "train.checkpoint.full_every=1"}, few(t)...)...)
	root := filepath.Join(dir, r.RunDir, "checkpoints")
	all, _ := filepath.Glob(filepath.Join(root, "step-*"))
	if len(all) < 2 {
		t.Fatalf("the checkpoints are %v", all)
	}
	for _, at := range all {
		to := filepath.Join(disk, filepath.Base(at))
		fatal.If(t, os.CopyFS(to, os.DirFS(at)))
		fatal.If(t, os.RemoveAll(at))
		fatal.If(t, os.Symlink(to, at))
	}
	first := filepath.Base(all[0])
	for _, args := range [][]string{{"show", r.RunDir}, {"verify", r.RunDir}, {"verify", filepath.Join(r.RunDir, "checkpoints", first)}} {
		if o := run(t, dir, append([]string{"ckpt"}, args...)...); o.code != 0 || !strings.Contains(o.stdout, first) {
			t.Errorf("%v: exit code %d\n%s%s", args, o.code, o.stdout, o.stderr)
		}
	}
	var pruned struct {
		Removed []string          `json:"removed"`
		Links   map[string]string `json:"links"`
	}
	link := filepath.Join(r.RunDir, "checkpoints", first)
	o := run(t, dir, "ckpt", "prune", "-keep", "1", "-dry-run", "-json", r.RunDir)
	if fatal.If(t, json.Unmarshal([]byte(o.stdout), &pruned)); len(pruned.Removed) != len(all)-1 || pruned.Links[link] != filepath.Join(disk, first) {
		t.Errorf("prune -dry-run: %s", o.stdout)
	}
	if o = run(t, dir, "ckpt", "prune", "-keep", "1", r.RunDir); o.code != 0 || !strings.Contains(o.stdout, "removed the link "+link+"; what it leads to stays: "+filepath.Join(disk, first)) {
		t.Errorf("exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	if left, _ := filepath.Glob(filepath.Join(root, "step-*")); len(left) != 1 {
		t.Errorf("after ckpt prune -keep 1: %q", left)
	}
	leftover := filepath.Join(root, ".tmp-step-000009999")
	fatal.If(t, os.Symlink(disk, leftover))
	more := []string{"-np", "1", "train", "-resume", r.RunDir, "-set", "train.epochs=3"}
	if o = run(t, dir, more...); o.code == 0 || !strings.Contains(o.stderr, filepath.Base(leftover)+": it is a symbolic link, not a folder") || !strings.Contains(o.stderr, "remove it") {
		t.Errorf("resume with a leftover link: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	fatal.If(t, os.Remove(leftover))
	if o = run(t, dir, more...); o.code != 0 {
		t.Errorf("resume from a linked checkpoint: exit code %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	if moved, _ := filepath.Glob(filepath.Join(disk, "step-*", "MANIFEST.json")); len(moved) != len(all) {
		t.Errorf("what the links led to: %q, want %d checkpoints", moved, len(all))
	}
}

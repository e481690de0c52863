package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestCalled: proposed commands begin with the path by which the program was called, unless
// PATH finds it or it is gone when the user reads them.
func TestCalled(t *testing.T) {
	here := t.TempDir()
	path := filepath.Join(here, "wdlrun")
	fatal.If(t, os.WriteFile(path, nil, 0o700))
	other := filepath.Join(t.TempDir(), "wdlrun")
	fatal.If(t, os.WriteFile(other, nil, 0o700))
	t.Setenv("PATH", here)
	for arg, want := range map[string]string{
		"wdlrun": "wdlrun", path: "wdlrun", other: other, "./wdlrun": "./wdlrun", "my tools/wdlrun": "'my tools/wdlrun'", "/tmp/go-build7/b001/exe/wdlrun": "wdlrun",
	} {
		if got := Called(arg); got != want {
			t.Errorf("called as %s: %s, want %s", arg, got, want)
		}
	}
	t.Setenv("PATH", "")
	t.Chdir("../../../..")
	if got := Called("/tmp/go-build7/b001/exe/wdlrun"); got != "go run ./cmd/wdlrun" {
		t.Errorf("called by go run: %s", got)
	}
}

func TestWordsForAShell(t *testing.T) {
	for path, want := range map[string]string{
		"runs/20261121-101500": "runs/20261121-101500", "s3://b/a.csv": "s3://b/a.csv", "": "''", "my runs": "'my runs'", "day_*.csv": "'day_*.csv'",
		"it's": `'it'\''s'`, "a$b;c": "'a$b;c'", "größe.csv": "'größe.csv'",
		"-x.csv": "./-x.csv", "-my x": "'./-my x'",
	} {
		if got := QuotedPath(path); got != want {
			t.Errorf("%q is %s, want %s", path, got, want)
		}
		if b, err := exec.Command("sh", "-c", "printf %s "+QuotedPath(path)).Output(); err != nil || strings.TrimPrefix(string(b), "./") != path {
			t.Errorf("a shell takes %s for %q, %v", QuotedPath(path), b, err)
		}
	}
	if got := QuotedPaths([]string{"a b", "c"}); got != "'a b' c" {
		t.Error(got)
	}
}

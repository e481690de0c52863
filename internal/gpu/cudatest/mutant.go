package cudatest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// timeout is the time in which a test must fail.
const timeout = 2 * time.Minute

// Mutant breaks a file, given relative to the package in the current directory, replacing from by to, and
// fails the test t unless another test of the package fails. A test that does not end has found nothing.
func Mutant(t *testing.T, file, from, to, test string) {
	t.Helper()
	source, err := regular.ReadFile(file, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	own, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), from); n != 1 {
		t.Fatalf("%s has this %d times: %s", file, n, from)
	}
	dir := t.TempDir()
	mutant, overlay := filepath.Join(dir, filepath.Base(file)), filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {own: mutant}})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{mutant: []byte(strings.Replace(string(source), from, to, 1)), overlay: text} {
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-tags", "gpu", "-overlay", overlay, "-count", "1", "-short", "-timeout", timeout.String(), "-run", "^"+test+"$", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "TMPDIR="+dir) // a process that panics does not remove its folder
	out, err := cmd.CombinedOutput()
	hangs := strings.Contains(string(out), "panic: test timed out")
	if hangs || err == nil || !strings.Contains(string(out), "--- FAIL: "+test) && !strings.Contains(string(out), "panic: ") && !strings.Contains(string(out), "signal: ") {
		t.Errorf("%s passes, does not run, or does not end: %v\n%s", test, err, out)
	}
}

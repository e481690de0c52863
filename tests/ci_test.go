package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFewTestsHaveASecondChance: .ci/timing.txt names packages that exist, with the
// reason, and few of them.
func TestFewTestsHaveASecondChance(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../.ci/timing.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		n++
		pkg, why, _ := strings.Cut(strings.TrimSpace(line), " ")
		dir, ours := strings.CutPrefix(pkg, module)
		if found, _ := filepath.Glob("../" + dir + "/*_test.go"); !ours || len(found) == 0 || len(why) < 40 {
			t.Errorf("%q: a package of this module with tests, and a reason, are expected", strings.TrimSpace(line))
		}
	}
	if n == 0 || n > 4 {
		t.Errorf("%d packages have a second chance, at most 4 may", n)
	}
}

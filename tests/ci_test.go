package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/fatal"
)

// TestFewTestsHaveASecondChance: .ci/timing.txt names packages that exist, with the
// reason, and few of them.
func TestFewTestsHaveASecondChance(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../.ci/timing.txt")
	fatal.If(t, err)
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

// TestLongTestsAreFound: .ci/run finds long tests by their function, so no helper may call
// patient.Size or patient.Long for them.
func TestLongTestsAreFound(t *testing.T) {
	t.Parallel()
	calls := regexp.MustCompile(`patient\.(Size|Long)\(`)
	n := 0
	for _, s := range sources(t) {
		function := ""
		for line := range strings.Lines(s.text) {
			if rest, ok := strings.CutPrefix(line, "func "); ok {
				function = rest
			}
			if strings.HasSuffix(s.path, "_test.go") && calls.MatchString(line) && s.path != "tests/ci_test.go" {
				if n++; !strings.HasPrefix(function, "Test") && !strings.HasPrefix(function, "Benchmark") {
					t.Errorf("%s: func %s: call it in the test function", s.path, strings.TrimSpace(function))
				}
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d calls found", n)
	}
}

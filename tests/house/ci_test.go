package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestFewTestsHaveASecondChance checks that .ci/timing.txt lists at most four packages, that
// they exist, and that each has a reason.
func TestFewTestsHaveASecondChance(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../.ci/timing.txt")
	fatal.If(t, err)
	n := 0
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		n++
		pkg, why, _ := strings.Cut(strings.TrimSpace(line), " ")
		dir, ours := strings.CutPrefix(pkg, module)
		if found, _ := filepath.Glob("../../" + dir + "/*_test.go"); !ours || len(found) == 0 || len(why) < 40 {
			t.Errorf("%q: want a package of this module with tests, and a reason", strings.TrimSpace(line))
		}
	}
	if n == 0 || n > 4 {
		t.Errorf("%d packages may be retried, want 1 to 4", n)
	}
}

// TestLongTestsAreFound: .ci/run finds long tests by the function that calls patient.Size or
// patient.Long. Only test and benchmark functions may therefore call them.
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
			if strings.HasSuffix(s.path, "_test.go") && calls.MatchString(line) && s.path != "tests/house/ci_test.go" {
				if n++; !strings.HasPrefix(function, "Test") && !strings.HasPrefix(function, "Benchmark") {
					t.Errorf("%s: func %s: only the test function itself may call patient.Size or patient.Long", s.path, strings.TrimSpace(function))
				}
			}
		}
	}
	if n < 30 {
		t.Errorf("found only %d calls, want at least 30", n)
	}
}

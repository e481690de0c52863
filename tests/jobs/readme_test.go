package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// clicks writes records of the kind that a reader of the README may have.
func clicks(t *testing.T, path string, rows int) {
	t.Helper()
	var b strings.Builder
	b.WriteString("clicked,user,ad,hour,price\n")
	for i := range rows {
		u, a := i*7919%500, i*31%40
		fmt.Fprintf(&b, "%d,u%d,a%d,%d,%d.25\n", (u%3+a%5)/4, u, a, i%24, i*17%900)
	}
	fatal.If(t, os.WriteFile(path, []byte(b.String()), 0o644))
}

// TestOwnDataOfTheREADME runs each command of the README's section about the user's own data.
func TestOwnDataOfTheREADME(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	fatal.If(t, err)
	_, section, _ := strings.Cut(string(readme), "\n## Your own data\n")
	section, _, _ = strings.Cut(section, "\n## ")
	lines := regexp.MustCompile(`(?m)^    \./wdlrun (.*)$`).FindAllStringSubmatch(section, -1)
	dir := t.TempDir()
	clicks(t, filepath.Join(dir, "clicks.csv"), 1000)
	clicks(t, filepath.Join(dir, "tuesday.csv"), 500)
	placeholder := regexp.MustCompile(`runs/\d{8}-\d{6}`)
	ran := ""
	for _, line := range lines {
		words := strings.ReplaceAll(line[1], "'", "") // no shell removes them
		if strings.HasPrefix(words, "gen ") {
			break // the following example is covered by the tests of gen and of the Criteo layout
		}
		if placeholder.MatchString(words) {
			found, _ := filepath.Glob(filepath.Join(dir, "runs", "2*"))
			if len(found) != 1 {
				t.Fatalf("before %q: run directories %v, want one", words, found)
			}
			words = placeholder.ReplaceAllLiteralString(words, "runs/"+filepath.Base(found[0]))
		}
		if o := run(t, dir, strings.Fields(words)...); o.code != 0 {
			t.Fatalf("wdlrun %s: exit code %d\n%s%s", words, o.code, o.stdout, o.stderr)
		}
		ran += words + "\n"
	}
	for _, want := range []string{"init ", "data check ", " train -config ", " eval ", " predict ", " train -from "} {
		if !strings.Contains(ran, want) {
			t.Errorf("the README's section about own data does not contain %q:\n%s", want, ran)
		}
	}
}

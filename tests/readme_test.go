package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/fatal"
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
	readme, err := os.ReadFile("../README.md")
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
		words := line[1]
		if strings.HasPrefix(words, "gen ") {
			break // the following example is covered by the tests of gen and of the Criteo layout
		}
		if placeholder.MatchString(words) {
			found, _ := filepath.Glob(filepath.Join(dir, "runs", "*"))
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
	for _, want := range []string{"init ", "data check ", " train -config ", " eval ", " predict ", " train -resume "} {
		if !strings.Contains(ran, want) {
			t.Errorf("the README's section about own data does not contain %q:\n%s", want, ran)
		}
	}
}

// anchor returns the link target of a Markdown heading.
func anchor(heading string) string {
	return strings.ReplaceAll(regexp.MustCompile(`[^\pL\pN_ -]`).ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// TestLinksOfTheDocuments: the files and headings exist that documents link to.
func TestLinksOfTheDocuments(t *testing.T) {
	t.Parallel()
	fenced, link := regexp.MustCompile("(?s)```.*?```"), regexp.MustCompile(`\]\(([^)\s:]+)\)`)
	heading := regexp.MustCompile(`(?m)^#+ (.*)$`)
	text, headings, links := map[string]string{}, map[string]bool{}, 0
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		for _, path := range found {
			b, err := os.ReadFile(path)
			fatal.If(t, err)
			text[path] = fenced.ReplaceAllString(string(b), "")
			for _, h := range heading.FindAllStringSubmatch(text[path], -1) {
				headings[path+"#"+anchor(h[1])] = true
			}
		}
	}
	for path, s := range text {
		for _, m := range link.FindAllStringSubmatch(s, -1) {
			links++
			file, place, _ := strings.Cut(m[1], "#")
			to := path
			if file != "" {
				to = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %s: %v", path, m[1], err)
			} else if place != "" && !headings[to+"#"+place] {
				t.Errorf("%s: %s: there is no such heading", path, m[1])
			}
		}
	}
	if links < 50 {
		t.Errorf("only %d links found in %d documents", links, len(text))
	}
}

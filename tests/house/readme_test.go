package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

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
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md"} {
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

package house

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestNamesInContributing: the files that CONTRIBUTING.md names for a change exist, and they
// declare the identifiers that it names.
func TestNamesInContributing(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../CONTRIBUTING.md")
	fatal.If(t, err)
	_, section, _ := strings.Cut(string(b), "\n## Where common changes go\n")
	section, _, _ = strings.Cut(section, "\n## ")
	changes := strings.Split(section, "\n**")[1:]
	if len(changes) < 10 {
		t.Errorf("%d changes, want 10", len(changes))
	}
	declared := declarations(t)
	code, subject := regexp.MustCompile("`([^`]+)`"), regexp.MustCompile(`^[a-z/]+: [^:]+$`)
	for _, change := range changes {
		title, body, _ := strings.Cut(change, "\n")
		if m := code.FindStringSubmatch(title); m == nil || !subject.MatchString(m[1]) || len(m[1]) > 72 {
			t.Errorf("%s: the example of a commit subject is missing or longer than 72 characters", title)
		}
		var files, names []string
		for _, m := range code.FindAllStringSubmatch(body, -1) {
			switch span := m[1]; {
			case strings.ContainsAny(span, " ") || strings.HasPrefix(span, "-"): // a command or a flag
			case strings.Contains(span, "/") || strings.HasSuffix(span, ".md") || declared[span] != nil:
				if _, err := os.Stat("../../" + span); err != nil {
					t.Errorf("%s: file %s does not exist", title, span)
				}
				files = append(files, span)
			default:
				names = append(names, span)
			}
		}
		for _, name := range names {
			if !declaredIn(declared, files, name) {
				t.Errorf("%s: %s is not declared in any of %s", title, name, strings.Join(files, " "))
			}
		}
		if len(files) < 3 || len(names) == 0 {
			t.Errorf("%s: names only %d files and %d identifiers", title, len(files), len(names))
		}
	}
}

// TestWhereThingsHappen: each function in the table of docs/architecture.md is declared in a file or
// folder that its row names.
func TestWhereThingsHappen(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/architecture.md")
	fatal.If(t, err)
	_, table, _ := strings.Cut(string(b), "\n## Where things happen\n")
	table, _, _ = strings.Cut(table, "\n## ")
	declared := declarations(t)
	code, link := regexp.MustCompile("`([A-Za-z.]+)`"), regexp.MustCompile(`\]\(\.\./([^)]+)\)`)
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.Contains(line, "](../") {
			continue
		}
		rows++
		var files []string
		for _, m := range link.FindAllStringSubmatch(cells[3], -1) {
			files = append(files, m[1])
		}
		for _, m := range code.FindAllStringSubmatch(cells[2], -1) {
			if name := m[1][strings.LastIndex(m[1], ".")+1:]; name != "go" && !declaredIn(declared, files, name) {
				t.Errorf("%s: %s is not declared in any of %s", strings.TrimSpace(cells[1]), m[1], strings.Join(files, " "))
			}
		}
	}
	if rows < 20 {
		t.Errorf("only %d rows", rows)
	}
}

// declarations returns the names, including methods, that each file and each folder declares.
func declarations(t *testing.T) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, s := range sources(t) {
		for _, where := range []string{s.path, s.dir()} {
			if all[where] == nil {
				all[where] = map[string]bool{}
			}
			for _, d := range s.file.Decls {
				for _, name := range namesOf(d) {
					all[where][name] = true
				}
			}
		}
	}
	return all
}

// declaredIn reports whether one of the files or folders declares a name. The name may be
// qualified by its package.
func declaredIn(declared map[string]map[string]bool, files []string, name string) bool {
	if pkg, id, qualified := strings.Cut(name, "."); qualified {
		return declared[pkg][id]
	}
	for _, f := range files {
		if declared[path.Clean(f)][name] {
			return true
		}
	}
	return false
}

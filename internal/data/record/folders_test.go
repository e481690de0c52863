package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// tree writes files of these names, with a record each.
func tree(t *testing.T, names ...string) (dir string) {
	dir = t.TempDir()
	for _, name := range names {
		fatal.If(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte("a,b\n1,2\n"), 0o600))
	}
	return dir
}

// Folders are read with the folders in them; hidden names are skipped by folders and wildcards.
func TestFoldersAndWildcards(t *testing.T) {
	dir := tree(t, "dt=1/a.csv", "dt=1/.a.csv.crc", "dt=1/_SUCCESS", "dt=1/_temporary/0/a.csv", "dt=2/hour=3/b.csv",
		"dt=2/hour=3/c.txt", "dt=2/.hidden/d.csv", "e.csv", "_old/f.csv")
	fatal.If(t, os.Symlink(filepath.Join(dir, "dt=1"), filepath.Join(dir, "dt=2", "linked")))
	t.Chdir(dir)
	for _, x := range []struct{ pattern, want string }{
		{".", "dt=1/a.csv dt=2/hour=3/b.csv dt=2/hour=3/c.txt dt=2/linked/a.csv e.csv"},
		{"dt=1", "dt=1/a.csv"},
		{"*", "dt=1/a.csv dt=2/hour=3/b.csv dt=2/hour=3/c.txt dt=2/linked/a.csv e.csv"},
		{"dt=*/*.csv", "dt=1/a.csv"},
		{"dt=1/*", "dt=1/a.csv"},
		{"dt=1/.*", "dt=1/.a.csv.crc"},
		{"_*/*", "_old/f.csv"},
		{"**", "dt=1/a.csv dt=2/hour=3/b.csv dt=2/hour=3/c.txt dt=2/linked/a.csv e.csv"},
		{"**/*.csv", "dt=1/a.csv dt=2/hour=3/b.csv dt=2/linked/a.csv e.csv"},
		{"dt=*/**/*.csv", "dt=1/a.csv dt=2/hour=3/b.csv dt=2/linked/a.csv"},
		{"./dt=2/**/hour=3/**/*", "dt=2/hour=3/b.csv dt=2/hour=3/c.txt"},
	} {
		for _, pattern := range []string{x.pattern, filepath.Join(dir, x.pattern)} {
			files, err := Resolve([]string{pattern})
			var got []string
			for _, f := range files {
				got = append(got, strings.TrimPrefix(f.Name, dir+"/"))
			}
			if err != nil || strings.Join(got, " ") != x.want {
				t.Errorf("%s: %q, %v; want %q", pattern, got, err, x.want)
			}
		}
	}
	for _, pattern := range []string{"_nothing", "**/*.tsv", "dt=2/.hidden/*.tsv", "dt=1/_temporary/*.csv"} {
		if files, err := Resolve([]string{pattern}); err == nil {
			t.Errorf("%s: %v", pattern, files)
		}
	}
}

// Names that could be read endlessly, or in two ways, are rejected.
func TestUnclearFolders(t *testing.T) {
	loop := tree(t, "dt=1/a.csv")
	fatal.If(t, os.Symlink(loop, filepath.Join(loop, "dt=1", "back")))
	deep := tree(t, strings.Repeat("d/", maxDepth+1)+"a.csv")
	for _, x := range []struct{ dir, want string }{
		{loop, "is a link to a folder that contains it"},
		{deep, "folders are more than 64 deep"},
		{tree(t, "dt=1/x/dt=2/a.csv"), "dt= occurs twice in the path"},
		{tree(t, "dt=%0A/a.csv"), "control character"},
		{tree(t, "b=3/a.csv"), `its column b contains "2", but its folder is b=3`},
		{tree(t, "x/notes.md", "x/a.csv"), "which is not a file of records"},
	} {
		for _, pattern := range []string{x.dir, filepath.Join(x.dir, "**")} {
			_, err := OpenSet(schema.Source{Header: true}, []string{pattern})
			if err == nil || !strings.Contains(err.Error(), x.want) {
				if x.want == "which is not a file of records" && strings.HasSuffix(pattern, "**") {
					continue // it is named
				}
				t.Errorf("%s: %v, want %q", pattern, err, x.want)
			}
		}
	}
	if s, err := OpenSet(schema.Source{Header: true}, []string{tree(t, "b=02/c=4/a.csv")}); err != nil || !slices.Equal(s.Fields, []string{"a", "b", "c"}) {
		t.Errorf("a column that agrees with its folder: %v, %v", s, err)
	}
}

// A folder is listed up to a number of names. Hidden ones take no memory, and are not counted.
func TestListIsLimited(t *testing.T) {
	dir := t.TempDir()
	for i := range 3000 {
		name := fmt.Sprintf("part-%04d", i*7%3000)
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		fatal.If(t, os.WriteFile(filepath.Join(dir, "."+name+".crc"), nil, 0o600))
	}
	all, err := list(dir, 3000)
	if err != nil || len(all) != 3000 || !slices.IsSortedFunc(all, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) }) {
		t.Errorf("%d names, %v", len(all), err)
	}
	if all, err := list(dir, 2999); all != nil || err == nil || err.Error() != dir+": more than 1048576 files; join them into fewer, larger ones" {
		t.Errorf("%d names of at most 2999: %v", len(all), err)
	}
}

// A name that a folder lists and that is gone afterwards is an error with advice, in the listing and in the
// first look at the file.
func TestFolderThatChanges(t *testing.T) {
	dir := tree(t, "a.csv", "b.csv")
	const want = "changed while it was listed, or this is a link to nothing; start again when no program writes the folder"
	if _, err := new(resolver).several(dir, []string{filepath.Join(dir, "a.csv"), filepath.Join(dir, "gone.csv")}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), want) {
		t.Errorf("a file: %v", err)
	}
	if err := (&walker{resolver: new(resolver)}).walk(filepath.Join(dir, "gone")); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), want) {
		t.Errorf("a folder: %v", err)
	}
	_, err := openSet(schema.Source{Header: true}, []string{dir}, func(files []File) ([]File, error) { return files, os.Remove(filepath.Join(dir, "b.csv")) })
	if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "b.csv: the file changed while the job ran") {
		t.Errorf("a file removed behind the listing: %v", err)
	}
}

// The parts of a pattern match like a regular expression over parts.
func TestMatchParts(t *testing.T) {
	for _, x := range []struct {
		pattern, name string
		want          bool
	}{
		{"**", "a", true}, {"**", "a/b/c", true}, {"**/c", "c", true}, {"**/c", "a/b/c", true}, {"a/**/c", "a/c", true},
		{"a/**/c", "a/b/b/c", true}, {"a/**/c", "b/c", false}, {"a/**/c", "a/b/c/d", false}, {"**/b/**", "a/b/c", true}, {"**/b/**", "a/c", false},
	} {
		if got := matchParts(strings.Split(x.pattern, "/"), strings.Split(x.name, "/")); got != x.want {
			t.Errorf("%s, %s: %v", x.pattern, x.name, got)
		}
	}
}

// A value from a folder is the same text in a line and in JSON, whatever characters it has.
func FuzzJoin(f *testing.F) {
	f.Add("a", `{"x":1}`)
	f.Add(`a"b,c\`, `{}`)
	f.Add(" é=%", ` { "x" : [1, 2] }`)
	f.Fuzz(func(t *testing.T, text, record string) {
		if printable(text) != nil {
			return
		}
		file := File{Partitions: []Partition{{Name: "dt", Value: text}, {Name: "no", Missing: true}}}
		for _, format := range []string{"csv", "jsonl", "tfrecord"} {
			form := NewFormat(schema.Source{Format: format})
			c, err := newCarried(form, &file, []string{"dt", "no"})
			fatal.If(t, err)
			d, err := form.Decoder([]string{"x", "dt", "no"}, []string{"dt", "no"})
			fatal.If(t, err)
			line := map[string]string{"csv": "1", "jsonl": record}[format]
			lists := make([]value.List, 2)
			if flaw := d.Decode((&carrier{of: c}).join([]byte(line)), lists); flaw != nil {
				if format != "jsonl" {
					t.Fatalf("%s: %q: %+v", format, text, flaw)
				}
				continue
			}
			if format == "jsonl" && strings.Contains(record, "dt") {
				continue
			}
			if got := fmt.Sprintf("%q", lists[0].Texts); got != fmt.Sprintf("%q", []string{text}) && text != "" || lists[1].Len() > 0 && len(lists[1].Texts[0]) > 0 {
				t.Fatalf("%s: %q is %s, %v", format, text, got, lists[1])
			}
		}
	})
}

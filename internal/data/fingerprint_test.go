package data

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestFingerprintOfContent: a changed value and swapped lines change the fingerprint at
// equal sizes and counts, for any number of parts.
func TestFingerprintOfContent(t *testing.T) {
	var b strings.Builder
	b.WriteString("id,age,city,tags,score,label\n")
	for b.Len() < 3*smallBlock {
		b.WriteString("1,34,Bern,a|b,0.5,1\n2,51,Basel,c,-3,0\n")
	}
	text, dir := b.String(), t.TempDir()
	of := func(content string, parts int) string {
		t.Helper()
		path := filepath.Join(dir, "people.csv")
		fatal.If(t, os.WriteFile(path, []byte(content), 0o644))
		d, _ := prepare(t, peopleSource(), peopleSchema(), parts, path)
		return d.Fingerprint()
	}
	want, last := of(text, 1), strings.LastIndex(text, "34")
	for _, parts := range []int{2, 3, 7} {
		if got := of(text, parts); got != want {
			t.Errorf("%s in %d parts, %s in one", got, parts, want)
		}
	}
	for what, other := range map[string]string{
		"a changed value": text[:last] + "35" + text[last+2:],
		"swapped lines":   strings.Replace(text, "1,34,Bern,a|b,0.5,1\n2,51,Basel,c,-3,0\n", "2,51,Basel,c,-3,0\n1,34,Bern,a|b,0.5,1\n", 1),
		"a moved comma":   strings.Replace(text, "Bern,a|b", "Ber,na|b", 1),
	} {
		for _, parts := range []int{1, 3} {
			if of(other, parts) == want {
				t.Errorf("%s has the same fingerprint in %d parts", what, parts)
			}
		}
	}
}

// TestIdentityOfData: the identity of data does not depend on the order, names and folders of
// files or on the number of parts, but on their content and their partitions.
func TestIdentityOfData(t *testing.T) {
	const head, one, two = "id,age,city,tags,score,label\n", "1,34,Bern,a|b,0.5,1\n", "2,51,Basel,c,-3,0\n"
	of := func(parts int, files ...string) string { // alternately a name and a content
		t.Helper()
		var paths []string
		for dir := t.TempDir(); len(files) > 0; files = files[2:] {
			path := filepath.Join(dir, files[0])
			fatal.If(t, os.MkdirAll(filepath.Dir(path), 0o755))
			fatal.If(t, os.WriteFile(path, []byte(head+files[1]), 0o644))
			paths = append(paths, path)
		}
		d, _ := prepare(t, peopleSource(), peopleSchema(), parts, paths...)
		return IdentityOf(d)
	}
	want := of(1, "a.csv", one, "b.csv", two)
	for what, x := range map[string]struct {
		id   string
		same bool
	}{
		"parts":      {of(2, "a.csv", one, "b.csv", two), true},
		"order":      {of(2, "b.csv", two, "a.csv", one), true},
		"names":      {of(1, "old/c.csv", one, "new/c.csv", two), true},
		"value":      {of(1, "a.csv", one, "b.csv", strings.Replace(two, "51", "52", 1)), false},
		"one file":   {of(1, "a.csv", one+two), false},
		"twice":      {of(1, "a.csv", one, "b.csv", one), false},
		"partition":  {of(1, "dt=1/a.csv", one, "dt=2/b.csv", two), false},
		"three":      {of(1, "a.csv", one, "b.csv", two, "c.csv", one), false},
		"same order": {of(3, "a.csv", one, "b.csv", two), true},
	} {
		if (x.id == want) != x.same {
			t.Errorf("%s: %s, want the identity %s: %v", what, x.id, want, x.same)
		}
	}
	if of(1, "dt=1/a.csv", one) == of(1, "dt=2/a.csv", one) {
		t.Error("two partitions have one identity")
	}
}

// TestHintAtLinesThatAreNoRecords: a faulty first line or a mark gives a hint to set
// data.comment or data.header.
func TestHintAtLinesThatAreNoRecords(t *testing.T) {
	const hint = "; if this line is not a record, set data.comment or data.header"
	s := peopleSource()
	s.Header, s.Fields = false, []string{"id", "age", "city", "tags", "score", "label"}
	for content, hinted := range map[string]bool{
		"a title\n1,34,Bern,a,0.5,1\n":          true,
		"1,34,Bern,a,0.5,1\n# end\n":            true,
		"1,34,Bern,a,0.5,1\n|end\n":             true,
		"1,34,Bern,a,0.5,1\n2,34\n":             false,
		"1,34,Bern,a,0.5,1\n-1,34\n":            false,
		"1,34,Bern,a,0.5,1\n,34\n":              false,
		"1,34,Bern,a,0.5,1\n2,x,Bern,a,0.5,1\n": false,
	} {
		d, err := Open(s, peopleSchema(), []string{datatest.Write(t, "people.csv", content)})
		fatal.If(t, err)
		if _, err = d.Scan(context.Background(), 0, 1, nil, nil); err == nil || strings.HasSuffix(err.Error(), hint) != hinted {
			t.Errorf("%q: %v; want the hint: %v", content, err, hinted)
		}
	}
}

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

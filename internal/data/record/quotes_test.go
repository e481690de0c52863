package record

import (
	"bytes"
	"context"
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

var multiline = schema.Source{Header: true, Multiline: true, Comment: "#"}

// walked returns the records of a file, and the places of the bad ones.
func walked(t rapid.TB, src schema.Source, content string) (records [][]string, bad []string) {
	f := File{Name: "f", size: int64(len(content)), Bytes: int64(len(content)), content: []byte(content)}
	s := &Set{Source: src, Files: []File{f}, Format: NewFormat(src)}
	fatal.If(t, s.Look(0))
	s.Blocks = cut(s.Files)
	w, err := (&Files{s}).Walk(context.Background(), s.Fields, 100, func(lists []value.List) error {
		var r []string
		for i := range lists {
			r = append(r, string(lists[i].Append(nil, 0)))
		}
		records = append(records, r)
		return nil
	}, nil)
	fatal.If(t, err)
	for i := range w.Faults {
		bad = append(bad, w.Faults[i].Place()+": "+w.Faults[i].Reason())
	}
	return records, bad
}

// The output of encoding/csv is read back, whatever the fields contain and wherever reads
// end.
func TestLineBreaksInQuotes(t *testing.T) {
	field := rapid.SampledFrom([]string{"", "a", "b c", "\n", "x\ny", "\"", "\n\"\n", ",", "\",\"\n", "#", "\r\n", strings.Repeat("long\n", 9000)})
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		w := csv.NewWriter(&b)
		w.Write([]string{"first\nname", "b"})
		var want [][]string
		for range rapid.IntRange(1, 20).Draw(t, "records") {
			r := []string{"k" + field.Draw(t, "a"), field.Draw(t, "b")}
			want = append(want, r)
			w.Write(r)
		}
		w.Flush()
		content := b.String()
		if rapid.Bool().Draw(t, "no end") {
			content = strings.TrimSuffix(content, "\n")
		}
		got, bad := walked(t, multiline, content)
		if len(bad) > 0 || !slices.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("%q\n%q, %q\nwant %q", content, got, bad, want)
		}
	})
}

// An unclosed quote makes its line a bad record, and no other.
func TestUnclosedQuote(t *testing.T) {
	const reason = `column a: "\"x,1" the quote that opens the field is not closed within 1 MiB or the file; write a quote inside a quoted field twice`
	long := strings.Repeat("3,4\n", 1<<19)
	for name, x := range map[string]struct {
		content string
		good    int
		bad     []string
	}{
		"at the end":     {"a,b\n1,2\n\"x,1", 1, []string{"f:3: " + reason}},
		"before others":  {"a,b\n\"x,1\n1,2\n3,4\n", 2, []string{"f:2: " + reason}},
		"before a MiB":   {"a,b\n\"x,1\n" + long, 1 << 19, []string{"f:2: " + reason}},
		"within a field": {"a,b\n5\" pipe,1\n# \"no record\n1,2\n", 2, nil},
	} {
		got, bad := walked(t, multiline, x.content)
		if len(got) != x.good || !slices.Equal(bad, x.bad) {
			t.Errorf("%s: %d records, %q; want %d, %q", name, len(got), bad, x.good, x.bad)
		}
	}
}

// FuzzQuotes reads any text: every byte belongs to one record, and records end as for a
// reader of whole texts.
func FuzzQuotes(f *testing.F) {
	f.Add("a,\"b\nc\",d\ne\n")
	f.Add("\"\"\"\n\"\n \"x\n")
	f.Fuzz(func(t *testing.T, content string) {
		f := &File{Name: "f", size: int64(len(content)), content: []byte(content)}
		l := lines{quotes: &quotes{quoted: true, delim: ','}}
		fatal.If(t, l.begin(memory{bytes.NewReader(f.content)}, f, Block{0, 0, f.size}))
		end := int64(0)
		for end < f.size {
			line, at, err := l.next()
			if err != nil || at != end {
				t.Fatalf("%q: a record at %d, want %d: %v", content, at, end, err)
			}
			end = l.off
			whole := content[at:]
			if n := oneRecord(whole); int64(n) != end-at && len(whole) <= MaxLine {
				t.Fatalf("%q: a record of %d bytes (%q), want %d", whole, end-at, line, n)
			}
		}
	})
}

// oneRecord returns the length of the first record of a text with its line feed, or of its
// first line if a quote is not closed.
func oneRecord(s string) int {
	inside, start := false, true
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case inside && c == '"' && i+1 < len(s) && s[i+1] == '"':
			i++
		case inside && c == '"':
			inside = false
		case inside:
		case c == '\n':
			return i + 1
		case c == ',':
			start = true
			continue
		case start && c == '"':
			inside = true
		case start && (c == ' ' || c == '\t'):
			continue
		}
		start = false
	}
	if line := strings.IndexByte(s, '\n'); inside && line >= 0 {
		return line + 1
	}
	return len(s)
}

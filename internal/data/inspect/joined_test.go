package inspect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// A first line that recurs is a header, even if no column is numeric; without numbers,
// lines may be equal.
func TestInspectJoinedFiles(t *testing.T) {
	for text, header := range map[string]bool{
		"age,tips\n7,1\n8,2\nage,tips\n9,0\n": true,
		"a,b\nc,d\na,b\nc,b\n":                false,
	} {
		in, err := First(datatest.Write(t, "joined.csv", text), 0)
		if err != nil || in.Header != header || in.Rows != map[bool]int{true: 3, false: 4}[header] {
			t.Errorf("%q: %+v, %v; want a header: %v", text, in, err, header)
		}
	}
}

// Members of objects are columns, also in lists. Lists of lists are listed as unread.
func TestInspectNested(t *testing.T) {
	text := `{"y":1,"user":{"id":1},"tags":["a"],"items":[{"id":1}],"t":null}` + "\n" + `{"y":0,"geo":[[1],[2]]}` + "\n"
	in, err := First(datatest.Write(t, "nested.jsonl", text), 0)
	if err != nil || len(in.Columns) != 5 || in.Columns[1].Name != "user.id" || in.Columns[3].Name != "items.id" || len(in.Unread) != 1 || in.Unread[0] != "geo is a list of objects or lists; flatten it (e.g. with jq)" {
		t.Errorf("%+v, %v", in, err)
	}
}

// The sample of a file with line breaks in quotes is from throughout the file. A file with
// hardly more records than the sample is read whole.
func TestSampleOfMultilineFiles(t *testing.T) {
	var b strings.Builder
	b.WriteString("n,note,y\n")
	for i := range 20000 {
		fmt.Fprintf(&b, "%d,\"line\n%d\",%d\n", i, i, i/18000) // the last tenth is positive
	}
	path := datatest.Write(t, "a.csv", b.String())
	in, err := First(path, 1000)
	fatal.If(t, err)
	if !in.Multiline || in.Rows != 1000 || in.All || in.Columns[0].Max < 18750 || in.Columns[2].Distinct != 2 {
		t.Errorf("%d rows, all: %v, n up to %v, %d labels", in.Rows, in.All, in.Columns[0].Max, in.Columns[2].Distinct)
	}
	if in, err = First(path, 20000); err != nil || in.Rows != 20000 || !in.All {
		t.Errorf("%d rows, all: %v, %v", in.Rows, in.All, err)
	}
	if in, err = First(path, 15000); err != nil || in.Rows != 15000 || in.All {
		t.Errorf("%d rows, all: %v, %v", in.Rows, in.All, err)
	}
}

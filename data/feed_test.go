package data

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/data/datatest"
	"github.com/wdlrun/wdlrun/data/schema"
	"github.com/wdlrun/wdlrun/data/stream"
)

// TestFeedOfStrangeFolders: what is no file of records is passed over, whatever it
// is, and links are followed.
func TestFeedOfStrangeFolders(t *testing.T) {
	dir, elsewhere := t.TempDir(), datatest.Write(t, "elsewhere.csv", "0,x,0\n")
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"b.csv", "a [1]*.csv", "-rf", ".hidden", "_tmp", "c.csv.part"} {
		if err := os.WriteFile(in(name), []byte("0,x,0\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{elsewhere: "link.csv", "nowhere": "dangling.csv", dir: "up"} {
		if err := os.Symlink(from, in(to)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(in("folder.csv"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(in("DONE"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	src := numberedSource()
	src.Train, src.Follow = []string{"file://localhost" + dir}, schema.Follow{On: true, Mark: "DONE"}
	var at stream.Position
	f, err := NewFeed(src, at)
	if err != nil {
		t.Fatal(err)
	}
	v, err := f.Next(context.Background(), &at, 0)
	want := []string{in("-rf"), in("a [1]*.csv"), in("b.csv"), in("link.csv")}
	slices.Sort(want)
	if err != nil || !slices.Equal(v.Span, want) {
		t.Fatalf("%q: %v, want %q", v.Span, err, want)
	}
	if d, _ := prepare(t, numberedSource(), numberedSchema(), 1, v.Span...); d.Rows(All) != int64(len(want)) {
		t.Errorf("%d rows", d.Rows(All))
	}
}

func TestFeedRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, x := range []struct {
		names []string
		want  string
	}{
		{[]string{dir, dir}, "is named twice"},
		{[]string{datatest.Write(t, "a.csv", "x")}, "is no folder"},
		{[]string{filepath.Join(dir, "none")}, "file does not exist"},
		{[]string{dir, "kafka://a:1/t"}, "is no topic, and others are"},
		{[]string{"kafka://a:1/t", "kafka://b:1/t"}, "topic t is named twice"},
		{[]string{"kafka://a:1/t#0:1-2"}, "does not grow"},
		{[]string{"kafka://a/t"}, "no HOST:PORT"},
	} {
		src := numberedSource()
		src.Train, src.Follow = x.names, schema.Follow{On: true}
		if _, err := NewFeed(src, stream.Position{}); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: %v, want %q", x.names, err, x.want)
		}
	}
	src := numberedSource()
	src.Train, src.Follow = []string{filepath.Join(dir, "in")}, schema.Follow{On: true}
	if err := os.Mkdir(src.Train[0], 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := NewFeed(src, stream.Position{})
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(src.Train[0])
	if _, err := f.Next(context.Background(), &stream.Position{}, 0); err == nil || !strings.Contains(err.Error(), "the folder is gone") {
		t.Error(err)
	}
}

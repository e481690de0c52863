package data

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/stream"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestFeedOfStrangeFolders: entries that are not files of records are skipped, and links
// are followed.
func TestFeedOfStrangeFolders(t *testing.T) {
	dir, elsewhere := t.TempDir(), datatest.Write(t, "elsewhere.csv", "0,x,0\n")
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"b.csv", "a [1]*.csv", "-rf", ".hidden", "_tmp", "c.csv.part"} {
		fatal.If(t, os.WriteFile(in(name), []byte("0,x,0\n"), 0o644))
	}
	for from, to := range map[string]string{elsewhere: "link.csv", "nowhere": "dangling.csv", dir: "up"} {
		fatal.If(t, os.Symlink(from, in(to)))
	}
	fatal.If(t, os.Mkdir(in("folder.csv"), 0o755))
	fatal.If(t, os.WriteFile(in("DONE"), nil, 0o644))
	src := numberedSource()
	src.Train, src.Follow = []string{"file://localhost" + dir}, schema.Follow{On: true, Mark: "DONE"}
	var at stream.Position
	f, err := NewFeed(src, at)
	fatal.If(t, err)
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

// TestFeedOfFolders: files in folders are followed in the order of their paths, and their
// partitions are fields. A mark in a folder does not end the stream.
func TestFeedOfFolders(t *testing.T) {
	dir := t.TempDir()
	put := func(name string) string {
		path := filepath.Join(dir, filepath.FromSlash(name))
		fatal.If(t, os.MkdirAll(filepath.Dir(path), 0o755))
		fatal.If(t, os.WriteFile(path, []byte("0,x,0\n"), 0o644))
		return path
	}
	want := []string{put("dt=2026-11-01/hour=00/a.csv"), put("dt=2026-11-01/hour=03/a.csv"), put("dt=2026-11-02/hour=00/a.csv")}
	put("dt=2026-11-01/_SUCCESS")
	put("_temporary/0/a.csv")
	put("dt=2026-11-02/.spark/a.csv")
	src, s := numberedSource(), numberedSchema()
	src.Train, src.Follow = []string{dir}, schema.Follow{On: true}
	s.Features = append(slices.Clone(s.Features), schema.Feature{Field: "hour", Encode: "hash"})
	var at stream.Position
	f, err := NewFeed(src, at)
	fatal.If(t, err)
	for range 2 { // a file is taken when it has not changed since the last look
		v, err := f.Next(context.Background(), &at, 0)
		fatal.If(t, err)
		if at.Span = v.Span; len(v.Span) > 0 && !slices.Equal(v.Span, want) || v.End != "" {
			t.Fatalf("%q, %q; want %q", v.Span, v.End, want)
		}
	}
	d, _ := prepare(t, numberedSource(), s, 1, at.Span...)
	if d.Rows(All) != 3 {
		t.Errorf("%d rows", d.Rows(All))
	}
	want = []string{put("dt=2026-11-02/hour=09/a.csv")}
	for range 2 {
		v, err := f.Next(context.Background(), &at, 0)
		fatal.If(t, err)
		at.Span = v.Span
	}
	if !slices.Equal(at.Span, want) {
		t.Errorf("then %q, want %q", at.Span, want)
	}
}

// TestFileGrowsInItsSpan: a span reads the bytes that its look found, even if more are
// appended meanwhile; the next span reads those. A packed file cannot be read further.
func TestFileGrowsInItsSpan(t *testing.T) {
	dir := t.TempDir()
	name, packed := filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.csv.gz")
	add := func(to string, b []byte) {
		f, err := os.OpenFile(to, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err == nil {
			_, err = f.Write(b)
		}
		fatal.If(t, err)
		f.Close()
	}
	rows := func(n int) []byte { return []byte(strings.Repeat("0,x,0\n", n)) }
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write(rows(10))
	z.Close()
	add(name, rows(20000)) // two blocks
	add(packed, zipped.Bytes())
	add(filepath.Join(dir, "_SUCCESS"), nil)
	src := numberedSource()
	src.Train, src.Follow = []string{dir}, schema.Follow{On: true}
	var at stream.Position
	f, err := NewFeed(src, at)
	fatal.If(t, err)
	for _, want := range []struct {
		rows   int64
		report string
	}{{20010, ""}, {7, "b.csv.gz grew by"}, {7, "bytes after it had been read; they are not read"}} {
		v, err := f.Next(context.Background(), &at, 0)
		if err != nil || !strings.Contains(strings.Join(v.Reports, "\n"), want.report) {
			t.Fatalf("%+v: %v, want a report with %q", v, err, want.report)
		}
		d, err := OpenSpan(src, numberedSchema(), at)
		fatal.If(t, err)
		add(name, rows(7))
		add(packed, zipped.Bytes())
		c, err := d.Scan(context.Background(), 0, 1, nil, nil)
		if err == nil {
			err = d.Use(c)
		}
		if err != nil || d.Rows(All) != want.rows {
			t.Fatalf("%d rows, want %d: %v", d.Rows(All), want.rows, err)
		}
	}
	fatal.If(t, os.WriteFile(name, []byte("1,y,0\n"), 0o644))
	if _, err := OpenSpan(src, numberedSchema(), at); !errors.Is(err, record.ErrReplaced) {
		t.Errorf("a replaced file: %v", err)
	}
}

func TestFeedRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, x := range []struct {
		names []string
		want  string
	}{
		{[]string{dir, dir}, "is named twice"},
		{[]string{datatest.Write(t, "a.csv", "x")}, "is not a folder"},
		{[]string{filepath.Join(dir, "none")}, "file does not exist"},
		{[]string{dir, "kafka://a:1/t"}, "is not a topic, and others are"},
		{[]string{"kafka://a:1/t", "kafka://b:1/t"}, "topic t is named twice"},
		{[]string{"kafka://a:1/t#0:1-2"}, "does not grow"},
		{[]string{"kafka://a/t"}, "not HOST:PORT"},
	} {
		src := numberedSource()
		src.Train, src.Follow = x.names, schema.Follow{On: true}
		if _, err := NewFeed(src, stream.Position{}); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: %v, want %q", x.names, err, x.want)
		}
	}
	src := numberedSource()
	src.Train, src.Follow = []string{filepath.Join(dir, "in")}, schema.Follow{On: true}
	fatal.If(t, os.Mkdir(src.Train[0], 0o755))
	f, err := NewFeed(src, stream.Position{})
	fatal.If(t, err)
	os.Remove(src.Train[0])
	if _, err := f.Next(context.Background(), &stream.Position{}, 0); err == nil || !strings.Contains(err.Error(), "the folder is gone") {
		t.Error(err)
	}
}

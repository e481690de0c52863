//go:build remote

package data

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
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

// bucket serves a folder as S3 and as a web server do, and returns its address.
func bucket(t testing.TB, dir string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("list-type") == "2" {
			list(w, dir, r.URL.Query().Get("prefix"))
			return
		}
		if info, err := os.Stat(filepath.Join(dir, strings.TrimPrefix(r.URL.Path, "/clicks/"))); err == nil {
			w.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprint(info.ModTime().UnixNano())))
		}
		http.StripPrefix("/clicks/", http.FileServer(http.Dir(dir))).ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	return s.URL
}

func list(w http.ResponseWriter, dir, prefix string) {
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprint(w, "<ListBucketResult>")
	names, _ := filepath.Glob(filepath.Join(dir, prefix) + "*")
	if strings.HasSuffix(prefix, "/") {
		names, _ = filepath.Glob(filepath.Join(dir, prefix, "*"))
	}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			rel, _ := filepath.Rel(dir, name)
			fmt.Fprintf(w, "<Contents><Key>%s</Key><Size>%d</Size><ETag>%d</ETag><LastModified>2026-11-21T10:00:00.000Z</LastModified></Contents>", rel, info.Size(), info.ModTime().UnixNano())
		}
	}
	fmt.Fprint(w, "</ListBucketResult>")
}

// TestRemoteFilesAreReadAsLocalOnesAre covers plain, packed and Parquet files, on any
// number of ranks.
func TestRemoteFilesAreReadAsLocalOnesAre(t *testing.T) {
	plain, err := os.ReadFile(numbered(t, 20000, 40))
	fatal.If(t, err)
	dir := t.TempDir()
	fatal.If(t, os.MkdirAll(filepath.Join(dir, "in"), 0o755))
	for name, b := range map[string][]byte{"in/a.csv": plain, "in/b.csv.gz": datatest.Pack(t, ".gz", plain), "in/_SUCCESS": nil, "in/empty.csv": nil} {
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), b, 0o644))
	}
	url := bucket(t, dir)
	local, _ := prepare(t, numberedSource(), numberedSchema(), 1, filepath.Join(dir, "in/a.csv"))
	for _, names := range [][]string{{url + "/clicks/in/a.csv"}, {"s3://clicks/in/a.csv?endpoint=" + url}, {"s3://clicks/in/*.gz?endpoint=" + url}} {
		for size := 1; size <= 2; size++ {
			d, fit := prepare(t, numberedSource(), numberedSchema(), size, names...)
			if d.content == 0 || d.Rows(All) != local.Rows(All) {
				t.Fatalf("%v: %d rows", names, d.Rows(All))
			}
			var rows []uint64
			for rank := range size {
				rows = append(rows, rowsOf(t, readAll(t, d, newEncoder(t, fit), ReaderConfig{Seed: 1, GlobalBatch: 512, Rank: rank, Size: size, Shuffle: true}))...)
			}
			slices.Sort(rows)
			if int64(len(slices.Compact(rows))) != local.Rows(All) {
				t.Errorf("%v: %d rows", names, len(rows))
			}
		}
	}
	all, err := Open(numberedSource(), numberedSchema(), []string{"s3://clicks/in/?endpoint=" + url})
	if err != nil || len(all.Names()) != 2 {
		t.Errorf("%v: %v", all.Names(), err)
	}
}

// TestFeedOfABucket: new objects are taken as new files are, and can be opened by
// the names in the span.
func TestFeedOfABucket(t *testing.T) {
	dir := t.TempDir()
	put := func(name, content string) {
		os.MkdirAll(filepath.Join(dir, path.Dir(name)), 0o755)
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	put("in/a.csv", "0,x,0\n")
	src := numberedSource()
	src.Train = []string{"s3://clicks/in/?endpoint=" + bucket(t, dir)}
	src.Follow = schema.Follow{On: true}
	var at stream.Position
	f, err := NewFeed(src, at)
	fatal.If(t, err)
	defer f.Close()
	look := func() stream.Verdict {
		t.Helper()
		v, err := f.Next(context.Background(), &at, 0)
		fatal.If(t, err)
		return v
	}
	if v := look(); len(v.Span) != 0 {
		t.Errorf("%+v at the first look", v)
	}
	put("in/b.csv", "0,x,0\n1,x,1\n")
	if v := look(); len(v.Span) != 1 || !strings.HasPrefix(v.Span[0], "s3://clicks/in/a.csv?endpoint=") {
		t.Errorf("%+v at the second look", v)
	}
	if _, err := OpenSpan(src, numberedSchema(), at); err != nil {
		t.Error(err)
	}
	put("in/a.csv", "1,x,1\n") // of the same size
	if _, err := OpenSpan(src, numberedSchema(), at); !errors.Is(err, record.ErrReplaced) {
		t.Errorf("a replaced object: %v", err)
	}
	put("in/_SUCCESS", "")
	v := look()
	if report := strings.Join(v.Reports, "\n"); !strings.Contains(report, "in/a.csv was replaced after it had been read; its 6 bytes are not read") {
		t.Errorf("reports %q", report)
	}
	d, _ := prepare(t, numberedSource(), numberedSchema(), 1, v.Span...)
	if d.Rows(All) != 2 || at.Spans != 2 {
		t.Errorf("%+v: %d rows", v, d.Rows(All))
	}
	if v := look(); v.End == "" {
		t.Errorf("%+v at the end", v)
	}
}

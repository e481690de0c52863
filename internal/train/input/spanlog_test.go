package input

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/stream"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// FuzzSpanLog: the content of a span log is either rejected or read as it was written.
func FuzzSpanLog(f *testing.F) {
	good, _ := json.Marshal(stream.Position{Spans: 4, Span: []string{"in/a"}, Folders: []stream.Folder{{Name: "in", Last: "in/a", Files: 1}}})
	f.Add(append(good, '\n'))
	f.Add(good)
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"spans":1,"span":["in/a"],"parts":[{"lo":3,"hi":9,"digest":7}]}` + "\n"))
	f.Add([]byte(`{"spans":1,"span":["in/a"],"parts":[{"lo":9,"hi":9,"digest":7}]}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), FileSpans)
		fatal.If(t, os.WriteFile(path, b, 0o644))
		all, err := ReadSpans(path)
		if err != nil {
			return
		}
		again, err := ReadSpans(path)
		if err != nil || !reflect.DeepEqual(all, again) {
			t.Fatalf("read twice: %v, then %v: %v", all, again, err)
		}
		for i, at := range all {
			if len(at.Span) == 0 || i > 0 && at.Spans != all[i-1].Spans+1 {
				t.Fatalf("%+v", all)
			}
		}
	})
}

// TestSpansAreCut: the log of a stream without end keeps its latest spans. A run that resumes at a
// checkpoint inside of them reads the same spans again; one that resumes before them divides the stream
// again, and continues the log from there.
func TestSpansAreCut(t *testing.T) {
	dir, most := t.TempDir(), int64(10_000)
	path := filepath.Join(dir, FileSpans)
	at := func(n int64) stream.Position {
		name := fmt.Sprintf("in/%06d", n)
		return stream.Position{Spans: n, Span: []string{name}, Parts: []stream.Part{{Hi: 9, Digest: 7}}, Folders: []stream.Folder{{Name: "in", Last: name, Files: n}}}
	}
	open := func(n int64, warnings int) *spanLog {
		l, err := openSpans(dir, n, func(line string) { warnings-- })
		fatal.If(t, err)
		if warnings != 0 {
			t.Errorf("at span %d: warnings missing: %d", n, warnings)
		}
		l.most = most
		return l
	}
	l := open(0, 0)
	for n := int64(1); n <= 1000; n++ {
		l.append(at(n))
		if info, err := os.Stat(path); err != nil || info.Size() > most || n > 100 && info.Size() < most/3 {
			t.Fatalf("span %d: %v, %v", n, info, err)
		}
	}
	l.close()
	all, err := ReadSpans(path)
	fatal.If(t, err)
	first := all[0].Spans
	if first < 2 || all[len(all)-1].Spans != 1000 {
		t.Fatalf("spans %d to %d", first, all[len(all)-1].Spans)
	}
	for n := first - 1; n < 1000; n++ {
		l := open(n, 0)
		if next := l.next(at(n)); next == nil || !reflect.DeepEqual(*next, at(n+1)) {
			t.Fatalf("span %d is followed by %v", n, next)
		}
		l.close()
	}
	l = open(5, 1)
	if l.next(at(5)) != nil {
		t.Error("a span is followed by one that is not the next")
	}
	l.append(at(6))
	l.close()
	if all, err := ReadSpans(path); err != nil || len(all) != 1 || all[0].Spans != 6 {
		t.Errorf("%v, %v", all, err)
	}
	l = open(6, 0)
	l.most = 10 // less than a line
	l.append(at(7))
	l.append(at(8))
	l.close()
	if all, err := ReadSpans(path); err != nil || all[len(all)-1].Spans != 8 {
		t.Errorf("%v, %v", all, err)
	}
}

package joblog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestRecordsOfARank: records have rank, host and step, on the stream and in the file,
// including those written before Open.
func TestRecordsOfARank(t *testing.T) {
	var stream bytes.Buffer
	var f File
	step := int64(0)
	log := New(&stream, &f, slog.LevelInfo, 3, "a", func() int64 { return step })
	log.Info("before")
	path := filepath.Join(t.TempDir(), "log-0003.jsonl")
	fatal.If(t, f.Open(path))
	step = 20
	log.Warn("after\n\"x\"")
	log.Debug("not this")
	fatal.If(t, f.Close())
	kept, err := os.ReadFile(path)
	if err != nil || string(kept) != stream.String() {
		t.Fatalf("%v: the file has %s, the stream %s", err, kept, stream.String())
	}
	got := ""
	for line := range strings.Lines(stream.String()) {
		var r struct {
			Time, Level, Msg, Host string
			Rank                   int
			Step                   int64
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Time == "" {
			t.Fatalf("%v in %s", err, line)
		}
		got += fmt.Sprintf("%s %q %d %s %d\n", r.Level, r.Msg, r.Rank, r.Host, r.Step)
	}
	if want := "INFO \"before\" 3 a 0\nWARN \"after\\n\\\"x\\\"\" 3 a 20\n"; got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
}

// TestFilesAreRotated: two files hold the latest records, in order.
func TestFilesAreRotated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f := File{limit: 100}
	fatal.If(t, f.Open(path))
	for i := range 50 {
		fmt.Fprintf(&f, "line %4d\n", i) // 10 bytes
	}
	fatal.If(t, f.Close())
	before, _ := os.ReadFile(path + ".1")
	last, _ := os.ReadFile(path)
	if all := string(before) + string(last); len(before) != 100 || len(last) != 100 || !strings.HasPrefix(all, "line   30\n") || !strings.HasSuffix(all, "line   49\n") {
		t.Errorf("%q and %q", before, last)
	}
	gone := File{}
	if gone.Open(filepath.Join(path, "none")) == nil {
		t.Error("a file in no folder is opened")
	}
	if n, err := gone.Write([]byte("x")); n != 1 || err != nil {
		t.Errorf("a file that was given up: %d, %v", n, err)
	}
}

// TestLines: every line becomes a record, however it is split over writes.
func TestLines(t *testing.T) {
	var out bytes.Buffer
	l := NewLines(&out, slog.LevelInfo)
	for _, piece := range []string{"one", " line\nwdlrun: rank 1 ", "failed\n\n{\"msg\":\"a record\",\"level\":\"INFO\"}\n{no", " record\n", strings.Repeat("x", lineLimit), "\n"} {
		fmt.Fprint(l, piece)
	}
	got := ""
	for line := range strings.Lines(out.String()) {
		var r struct{ Level, Msg string }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		got += fmt.Sprintf("%s %.20s\n", r.Level, r.Msg)
	}
	if want := "INFO one line\nWARN rank 1 failed\nINFO a record\nINFO {no record\nINFO xxxxxxxxxxxxxxxxxxxx\n"; got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
}

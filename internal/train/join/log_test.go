package join

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// FuzzSegment: no content of a segment panics, and every commit that is accepted has its checksum.
func FuzzSegment(f *testing.F) {
	whole := commitEntry(nil, 0, []byte(`{"number":1}`))
	f.Add(whole)
	f.Add(append(bytes.Clone(whole), 'I', 20, 1, 2, 3))
	f.Add([]byte{'C', 0xff, 0xff, 0xff, 0x3f})
	f.Add([]byte{'F', 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &scan{in: bufio.NewReader(bytes.NewReader(b)), number: 1}
		commits := 0
		err := s.all(restored{func(byte, Key, int64, Ref) {}, func([]byte) error { commits++; return nil }})
		if s.good > int64(len(b)) || (s.good > 0) != (commits > 0) || err == nil && s.good != int64(len(b)) {
			t.Errorf("%d commits up to byte %d of %d: %v", commits, s.good, len(b), err)
		}
	})
}

// TestLog: a log gives back what was committed, rolls, removes segments that are closed, and names the one
// that is damaged.
func TestLog(t *testing.T) {
	dir := t.TempDir()
	read := func() (l *stateLog, keys []uint64, commits []string, err error) {
		l, _, err = openLog(dir, restored{
			func(_ byte, k Key, _ int64, _ Ref) { keys = append(keys, k.Lo) },
			func(b []byte) error { commits = append(commits, string(b)); return nil },
		})
		return l, keys, commits, err
	}
	l, _, _, err := read()
	fatal.If(t, err)
	fatal.If(t, l.begin([]byte("0")))
	long := []byte(`{"long":"` + strings.Repeat("x", 1<<20) + `"}`)
	for i := range uint64(200) {
		ref := l.next()
		fatal.If(t, l.impression(Key{Lo: i}, int64(i), long))
		if _, object, err := l.read(ref); err != nil || !bytes.Equal(object, long) {
			t.Fatalf("impression %d: %d bytes, %v", i, len(object), err)
		}
		fatal.If(t, l.feedback(Key{Lo: 1000 + i}, int64(i), []byte("2.5"), []byte("{}")))
		if i%10 == 9 {
			fatal.If(t, l.commit([]byte("{}"), int64(i)-100, 10))
		}
	}
	fatal.If(t, l.feedback(Key{Lo: 5000}, 0, nil, []byte("{}"))) // not committed
	fatal.If(t, l.out.Flush())
	last := l.segments[len(l.segments)-1]
	if len(l.segments) != 2 || last.number != 3 {
		t.Fatalf("%d segments, the last is %d", len(l.segments), last.number)
	}
	l.close()
	l, keys, commits, err := read()
	fatal.If(t, err)
	if n := len(keys); keys[n-1] != 1199 || keys[n-2] != 199 || keys[0] != 70 || commits[len(commits)-1] != "{}" {
		t.Errorf("%d records from %d to %d", n, keys[0], keys[n-1])
	}
	fatal.If(t, l.impression(Key{Lo: 6000}, 0, []byte("{}")))
	fatal.If(t, l.commit([]byte("{}"), Never, 10))
	l.close()
	if l, keys, _, err = read(); err != nil || keys[len(keys)-1] != 6000 {
		t.Fatalf("after a second run: %v, %v", keys, err)
	}
	l.close()
	first := filepath.Join(dir, segmentName(2))
	b, err := os.ReadFile(first)
	fatal.If(t, err)
	b[len(b)/2] ^= 1
	fatal.If(t, os.WriteFile(first, b, 0o600))
	if _, _, _, err = read(); err == nil || !strings.Contains(err.Error(), first) {
		t.Errorf("a damaged segment: %v", err)
	}
}

package record

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestSums changes the size and each end of a file, which changes its sum.
func TestSums(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.csv")
	line := []byte("1,2\n")
	sum := func(b []byte) Sum {
		t.Helper()
		fatal.If(t, os.WriteFile(path, b, 0o600))
		s, err := OpenSet(schema.Source{Format: "csv", Header: true}, []string{path})
		fatal.If(t, err)
		all, err := Sums(s.Files, true)
		if err != nil || len(all) != 1 || all[0].Name != path || all[0].Bytes != int64(len(b)) {
			t.Fatal(all, err)
		}
		return all[0]
	}
	for _, n := range []int{len(line), endBytes, endBytes + len(line), 5 * endBytes} {
		b := append([]byte("a,b\n"), bytes.Repeat(line, n/len(line))...)
		first := sum(b)
		if sum(b) != first {
			t.Errorf("%d bytes: two sums of one file", n)
		}
		for _, at := range []int{6, len(b) - 2} {
			b[at]++
			if sum(b).Ends == first.Ends {
				t.Errorf("%d bytes: byte %d does not count", n, at)
			}
			b[at]--
		}
	}
}

// TestSumsOfMany opens more files than have their ends read: every second one has them.
func TestSumsOfMany(t *testing.T) {
	s := &Set{Files: make([]File, 2*maxEnds)}
	path := filepath.Join(t.TempDir(), "a")
	fatal.If(t, os.WriteFile(path, []byte("a\n"), 0o600))
	info, err := os.Stat(path)
	fatal.If(t, err)
	for i := range s.Files {
		s.Files[i] = File{Name: path, Bytes: 2, time: info.ModTime()}
		if i%2 == 1 {
			s.Files[i] = File{Name: fmt.Sprint(path, i), Bytes: 1}
		}
	}
	all, err := Sums(s.Files, true)
	if err != nil || all[0].Ends == 0 || all[1].Ends != 0 || all[1].Bytes != 1 || all[2] != all[0] {
		t.Error(all[:3], err)
	}
}

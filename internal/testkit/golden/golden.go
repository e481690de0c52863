// Package golden compares a test's output with a text file next to it.
//
//	go test ./PACKAGE -rewrite
//
// rewrites the files. Read the difference before committing it.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write golden files instead of comparing with them")

// Check compares got with testdata/name and fails t at the first line that differs.
func Check(t testing.TB, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -rewrite makes it)", err)
	}
	if string(b) == got {
		return
	}
	want, have := strings.Split(string(b), "\n"), strings.Split(got, "\n")
	for i := range max(len(want), len(have)) {
		w, h := line(want, i), line(have, i)
		if w != h {
			t.Fatalf("%s:%d:\n  file  %s\n  got   %s", path, i+1, w, h)
		}
	}
}

func line(lines []string, i int) string {
	if i >= len(lines) {
		return "(end of text)"
	}
	return lines[i]
}

package versions

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestFind: a base folder of any size is listed, and listed again only after a change or if it
// has links.
func TestFind(t *testing.T) {
	base := t.TempDir()
	const n = 5000
	for i := range n {
		fatal.If(t, os.Mkdir(filepath.Join(base, fmt.Sprint(i)), 0o755))
	}
	for _, name := range []string{"-1", "+2", "x", "00000000000000000000000000000000000000000000000000009"} {
		fatal.If(t, os.Mkdir(filepath.Join(base, name), 0o755))
	}
	fatal.If(t, os.WriteFile(filepath.Join(base, fmt.Sprint(n)), nil, 0o644))
	numbers := func(l *listing, err error) []int64 {
		fatal.If(t, err)
		return l.numbers
	}
	l, err := find(base, nil)
	if got := numbers(l, err); len(got) != n || got[0] != 0 || got[n-1] != n-1 {
		t.Fatalf("%d versions, want %d", len(got), n)
	}
	for _, name := range []string{"0007", "-0", "00"} {
		fatal.If(t, os.Mkdir(filepath.Join(base, name), 0o755))
	}
	l, err = find(base, l)
	if got := numbers(l, err); len(got) != n || l.dir(7) != filepath.Join(base, "0007") || l.dir(0) != filepath.Join(base, "-0") || l.dir(8) != filepath.Join(base, "8") || l.dir(n) != "" {
		t.Errorf("%d versions; 7 is %s, 0 is %s, 8 is %s, %d is %s", len(got), l.dir(7), l.dir(0), l.dir(8), n, l.dir(n))
	}
	for _, name := range []string{"0007", "-0", "00"} {
		fatal.If(t, os.Remove(filepath.Join(base, name)))
	}
	if l, err = find(base, l); !l.changed.IsZero() {
		t.Error("a folder that has just changed is not listed again")
	}
	fatal.If(t, os.Remove(filepath.Join(base, fmt.Sprint(n))))
	old := time.Now().Add(-time.Hour)
	fatal.If(t, os.Chtimes(base, old, old))
	l, err = find(base, l)
	numbers(l, err)
	if again, err := find(base, l); err != nil || again != l {
		t.Errorf("a folder without changes is listed again: %v", err)
	}
	fatal.If(t, os.Mkdir(filepath.Join(base, fmt.Sprint(n)), 0o755))
	fatal.If(t, os.Remove(filepath.Join(base, "0")))
	l, err = find(base, l)
	if got := numbers(l, err); len(got) != n || got[0] != 1 || !slices.Contains(got, n) {
		t.Errorf("%d versions from %d after a change", len(got), got[0])
	}
	fatal.If(t, os.Symlink(filepath.Join(base, "1"), filepath.Join(base, "9999")))
	fatal.If(t, os.Chtimes(base, old, old))
	l, err = find(base, l)
	numbers(l, err)
	fatal.If(t, os.Rename(filepath.Join(base, "1"), filepath.Join(t.TempDir(), "1")))
	fatal.If(t, os.Chtimes(base, l.changed, l.changed))
	l, err = find(base, l)
	if got := numbers(l, err); slices.Contains(got, 9999) {
		t.Error("a link without a target is a version")
	}
}

// BenchmarkPoll measures a poll of a folder of 100,000 versions that has not changed.
func BenchmarkPoll(b *testing.B) {
	base := b.TempDir()
	for i := range 100_000 {
		fatal.If(b, os.Mkdir(filepath.Join(base, fmt.Sprint(i)), 0o755))
	}
	old := time.Now().Add(-time.Hour)
	fatal.If(b, os.Chtimes(base, old, old))
	m := newModel(New(Options[*fake]{Open: func(string, int64, string, *fake) (*fake, error) { return &fake{}, nil }}), Config{Name: "m", Base: base})
	fatal.If(b, m.reconcile(m.config))
	for b.Loop() {
		fatal.If(b, m.reconcile(m.config))
	}
}

// BenchmarkChangedPoll measures a poll of a folder of 100,000 versions that has changed.
func BenchmarkChangedPoll(b *testing.B) {
	base := b.TempDir()
	for i := range 100_000 {
		fatal.If(b, os.Mkdir(filepath.Join(base, fmt.Sprint(i)), 0o755))
	}
	for b.Loop() {
		_, err := find(base, nil)
		fatal.If(b, err)
	}
}

package data

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/wdlrun/wdlrun/internal/patient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(patient.Settled(m)) }

// write makes a file of a test.
func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// readAll returns all batches of one rank.
func readAll(t testing.TB, d *Dataset, e *Encoder, c ReaderConfig) []*Batch {
	t.Helper()
	r, err := NewReader(d, e, c)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all []*Batch
	for {
		b, err := r.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		checkShape(t, b, e)
		all = append(all, b)
	}
}

func checkShape(t testing.TB, b *Batch, e *Encoder) {
	t.Helper()
	if len(b.Label) != b.Rows || len(b.RowID) != b.Rows || len(b.Dense) != b.Rows*len(e.Dense()) || len(b.Sparse) != len(e.Sparse()) {
		t.Fatalf("a batch of %d rows has %d labels, %d ids, %d numbers, %d sparse features", b.Rows, len(b.Label), len(b.RowID), len(b.Dense), len(b.Sparse))
	}
	for f, j := range b.Sparse {
		if len(j.Offsets) != b.Rows+1 || j.Offsets[0] != 0 || !slices.IsSorted(j.Offsets) || int(j.Offsets[b.Rows]) != len(j.Values) {
			t.Fatalf("feature %d: offsets %v of %d values", f, j.Offsets, len(j.Values))
		}
	}
}

package data

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(patient.Settled(m)) }

// smallBlock is the least size of a block of a file (see package record).
const smallBlock = 64 << 10

// readAll returns all batches of one rank.
func readAll(t testing.TB, d *Dataset, e *encode.Encoder, c ReaderConfig) []*encode.Batch {
	t.Helper()
	r, err := NewReader(d, e, c)
	fatal.If(t, err)
	defer r.Close()
	var all []*encode.Batch
	for {
		b, err := r.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return all
		}
		fatal.If(t, err)
		checkShape(t, b, e)
		all = append(all, b)
	}
}

func checkShape(t testing.TB, b *encode.Batch, e *encode.Encoder) {
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

// keptOf holds the statistics that an encoder keeps of a feature.
type keptOf struct {
	Name            string
	Mean, Deviation float64
	Limits          []float64
	Vocabulary      []string
}

// statisticsOf returns the statistics of a feature, from the encoder's text form.
func statisticsOf(t testing.TB, e *encode.Encoder, name string) keptOf {
	t.Helper()
	b, err := e.Marshal()
	fatal.If(t, err)
	var index struct{ Features []keptOf }
	fatal.If(t, json.Unmarshal(b, &index))
	i := slices.IndexFunc(index.Features, func(f keptOf) bool { return f.Name == name })
	if i < 0 {
		t.Fatalf("there is no feature %s", name)
	}
	return index.Features[i]
}

package data

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/synth"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

const benchRows = 300_000 // a few windows of the shuffle

// clickLog returns a synthetic click log in Criteo's layout.
func clickLog(b *testing.B) []byte {
	b.Helper()
	var text bytes.Buffer
	g, err := synth.New("criteo")
	fatal.If(b, err)
	fatal.If(b, g.Write(&text, 0, benchRows))
	return text.Bytes()
}

// clickSchema returns a schema that takes counts as numbers and hashes categories.
func clickSchema() schema.Schema {
	s := schema.Schema{Label: schema.Label{Field: "label"}}
	for _, f := range schema.CriteoFields()[1:] {
		encode := "hash"
		if f[0] == 'I' {
			encode = "log"
		}
		s.Features = append(s.Features, schema.Feature{Field: f, Encode: encode})
	}
	return s
}

// BenchmarkRead reads a click log into batches, on one core, in the order of the file and
// shuffled. BenchmarkLibrary of internal/bench/input compares other formats with libraries.
//
//	go test ./internal/data -run - -bench Read -cpu 1
func BenchmarkRead(b *testing.B) {
	path := filepath.Join(b.TempDir(), "log.tsv")
	fatal.If(b, os.WriteFile(path, clickLog(b), 0o644))
	b.Run("criteo", func(b *testing.B) { benchFile(b, path, ReaderConfig{GlobalBatch: 1024}) })
	b.Run("criteo-shuffled", func(b *testing.B) { benchFile(b, path, ReaderConfig{GlobalBatch: 1024, Shuffle: true}) })
}

// BenchmarkRank reads what one of several ranks reads of a shuffled epoch of packed files:
//
//	go test ./internal/data -run - -bench Rank -cpu 1
func BenchmarkRank(b *testing.B) {
	plain := filepath.Join(b.TempDir(), "log.tsv")
	fatal.If(b, os.WriteFile(plain, clickLog(b), 0o644))
	packed := packedParts(b, plain, 32)
	for _, ranks := range []int{1, 2, 8, 32} {
		b.Run(fmt.Sprintf("1of%d", ranks), func(b *testing.B) {
			benchFile(b, packed, ReaderConfig{GlobalBatch: 8192, Shuffle: true, Size: ranks})
		})
	}
}

// benchFile reads a click log of benchRows records.
func benchFile(b *testing.B, path string, c ReaderConfig) {
	d, err := Open(schema.Source{Format: "criteo"}, clickSchema(), []string{path})
	fatal.If(b, err)
	fit := encode.NewFit(clickSchema())
	counts, err := d.Scan(context.Background(), 0, 1, fit, nil)
	if err == nil {
		err = d.Use(counts)
	}
	fatal.If(b, err)
	e, err := encode.NewEncoder(fit)
	fatal.If(b, err)
	if info, err := os.Stat(path); err == nil { // not of a pattern
		b.SetBytes(info.Size())
	}
	b.ReportAllocs()
	for b.Loop() {
		r, err := NewReader(d, e, c)
		fatal.If(b, err)
		for {
			x, err := r.Next(context.Background())
			if errors.Is(err, io.EOF) {
				break
			}
			fatal.If(b, err)
			r.Recycle(x)
		}
		r.Close()
	}
	b.ReportMetric(float64(b.N)*benchRows/b.Elapsed().Seconds(), "records/s")
}

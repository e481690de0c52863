package data

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/synth"
	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/fatal"
)

const benchRows = 300_000 // a few windows of the shuffle

// clickLog returns a synthetic click log in Criteo's layout.
func clickLog(b *testing.B) []byte {
	b.Helper()
	var text bytes.Buffer
	fatal.If(b, synth.Write(&text, "criteo", 0, benchRows))
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

// examples returns a click log as TFRecord: counts as integers, categories as texts.
func examples(b *testing.B, log []byte) []byte {
	names, lists := schema.CriteoFields(), make([]value.List, 40)
	var out, record []byte
	for line := range bytes.Lines(log) {
		for i, f := range bytes.Split(bytes.TrimSuffix(line, []byte("\n")), []byte("\t")) {
			lists[i].Reset()
			if len(f) > 0 && i < 14 {
				x, _ := value.ParseNumber(f)
				lists[i].Begin(value.Int)
				lists[i].Ints = append(lists[i].Ints, int64(x))
			} else if len(f) > 0 {
				lists[i].SetText(f)
			}
		}
		record = tfrecord.AppendExample(record[:0], names, lists)
		out = tfrecord.AppendFrame(out, record)
	}
	return out
}

// BenchmarkRead reads a click log into batches, on one core, in the order of the
// file and shuffled, compared with what encoding/csv takes to cut the same file into
// fields:
//
//	go test ./internal/data -run - -bench Read -cpu 1
func BenchmarkRead(b *testing.B) {
	log := clickLog(b)
	dir := b.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		fatal.If(b, os.WriteFile(path, content, 0o644))
		return path
	}
	tsv, record := file("log.tsv", log), file("log.tfrecord", examples(b, log))
	inOrder := ReaderConfig{GlobalBatch: 1024}
	shuffled := ReaderConfig{GlobalBatch: 1024, Shuffle: true}
	b.Run("criteo", func(b *testing.B) { benchFile(b, "criteo", tsv, inOrder) })
	b.Run("criteo-shuffled", func(b *testing.B) { benchFile(b, "criteo", tsv, shuffled) })
	b.Run("criteo-by-encoding-csv", func(b *testing.B) { perRecord(b, tsv, readCSV) })
	b.Run("tfrecord", func(b *testing.B) { benchFile(b, "tfrecord", record, inOrder) })
	b.Run("tfrecord-shuffled", func(b *testing.B) { benchFile(b, "tfrecord", record, shuffled) })
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
			benchFile(b, "criteo", packed, ReaderConfig{GlobalBatch: 8192, Shuffle: true, Size: ranks})
		})
	}
}

// perRecord runs read, which reads a whole file of benchRows records.
func perRecord(b *testing.B, path string, read func(b *testing.B, path string)) {
	if info, err := os.Stat(path); err == nil { // not of a pattern
		b.SetBytes(info.Size())
	}
	b.ReportAllocs()
	for b.Loop() {
		read(b, path)
	}
	b.ReportMetric(float64(b.N)*benchRows/b.Elapsed().Seconds(), "records/s")
}

func benchFile(b *testing.B, format, path string, c ReaderConfig) {
	d, err := Open(schema.Source{Format: format}, clickSchema(), []string{path})
	fatal.If(b, err)
	fit := encode.NewFit(clickSchema())
	counts, err := d.Scan(context.Background(), 0, 1, fit, nil)
	if err == nil {
		err = d.Use(counts)
	}
	fatal.If(b, err)
	e, err := encode.NewEncoder(fit)
	fatal.If(b, err)
	perRecord(b, path, func(b *testing.B, _ string) {
		r, err := NewReader(d, e, c)
		fatal.If(b, err)
		defer r.Close()
		for {
			x, err := r.Next(context.Background())
			if errors.Is(err, io.EOF) {
				return
			}
			fatal.If(b, err)
			r.Recycle(x)
		}
	})
}

func readCSV(b *testing.B, path string) {
	f, err := os.Open(path)
	fatal.If(b, err)
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma, r.ReuseRecord, r.LazyQuotes = '\t', true, true
	for n := 0; ; n++ {
		if _, err := r.Read(); err == io.EOF {
			return
		} else if err != nil {
			b.Fatal(err)
		}
	}
}

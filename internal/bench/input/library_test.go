package input

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/report"
)

var (
	file    = flag.String("file", "", "BenchmarkLibrary, BenchmarkScan: read `FILE`, such as one that wdlrun gen wrote")
	shuffle = flag.Bool("shuffled", false, "BenchmarkLibrary: read in shuffled order")
)

// BenchmarkLibrary reads the file of -file as training does, and by turns only its values with
// another library. The metric "ratio" is the library's CPU time divided by ours, median of the
// rounds.
//
//	go test ./internal/bench/input -run - -bench Library -cpu 1 -benchtime 5x -file /tmp/c.tsv
func BenchmarkLibrary(b *testing.B) {
	o := optionsOf(b)
	read := libraryFor(o.Source)
	if read == nil {
		b.Skip("no library for this format")
	}
	d, e, err := prepare(b.Context(), o)
	fatal.If(b, err)
	m := meter{dataset: d, encoder: e, options: o}
	var ratios []float64
	for b.Loop() {
		began := report.ProcessTime()
		fatal.If(b, m.pass(b.Context(), int64(len(ratios))))
		own := report.ProcessTime() - began
		if n, err := read(*file); n < d.Rows(data.All) || err != nil {
			b.Fatalf("the library read %d of %d records: %v", n, d.Rows(data.All), err)
		}
		ratios = append(ratios, float64(report.ProcessTime()-began-own)/float64(own))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
	b.ReportMetric(float64(m.records)/m.spent.Seconds(), "records/s")
}

// BenchmarkScan scans the file of -file, as before the first step of a training. The metric is the
// CPU time of a record.
//
//	go test ./internal/bench/input -run - -bench Scan -cpu 1 -benchtime 5x -file /tmp/c.parquet
func BenchmarkScan(b *testing.B) {
	o := optionsOf(b)
	began, records := report.ProcessTime(), int64(0)
	for b.Loop() {
		d, _, err := prepare(b.Context(), o)
		fatal.If(b, err)
		records += d.Rows(data.All)
	}
	b.ReportMetric(float64((report.ProcessTime()-began).Nanoseconds())/float64(records), "ns/record")
}

// optionsOf returns the options of the file of -file.
func optionsOf(b *testing.B) Options {
	if *file == "" {
		b.Skip("-file FILE")
	}
	seen, err := inspect.First(*file, 0)
	fatal.If(b, err)
	cfg, err := config.Parse(*file, config.Suggest(seen, ""))
	fatal.If(b, err)
	return Options{Source: cfg.Data, Schema: schema.Schema{Label: cfg.Label, Labels: cfg.Labels, Features: cfg.Features, Crosses: cfg.Crosses}, Files: []string{*file}, Batch: 1024, Shuffle: *shuffle}
}

// libraryFor returns a function that reads the values of a file without using them, or nil if
// there is none for the format.
func libraryFor(s schema.Source) func(path string) (records int64, err error) {
	switch s.Format {
	case "", "csv":
		comma := ','
		if s.Delimiter != "" {
			comma = rune(s.Delimiter[0])
		}
		return func(path string) (int64, error) { return readCSV(path, comma) }
	case "tsv", "criteo":
		return func(path string) (int64, error) { return readCSV(path, '\t') }
	case "jsonl":
		return readObjects
	case "parquet":
		return readColumns
	}
	return nil
}

// readCSV splits the lines of a file into fields. It makes a string of each, in a reused
// record.
func readCSV(path string, comma rune) (n int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma, r.ReuseRecord, r.LazyQuotes, r.FieldsPerRecord = comma, true, true, -1
	for ; ; n++ {
		if _, err := r.Read(); err != nil {
			return n, atEnd(err)
		}
	}
}

// readObjects decodes the lines of a file into a reused map.
func readObjects(path string) (n int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	d, record := json.NewDecoder(f), map[string]any{}
	for ; ; n++ {
		if err := d.Decode(&record); err != nil {
			return n, atEnd(err)
		}
	}
}

// readColumns reads the values of all columns of a Parquet file, one column of a
// row group after another, as parquet.Value, a thousand at a time.
func readColumns(path string) (n int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	p, err := parquet.OpenFile(f, info.Size(), parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return 0, err
	}
	values := make([]parquet.Value, 1024)
	for _, g := range p.RowGroups() {
		for _, c := range g.ColumnChunks() {
			if err := readPages(c.Pages(), values); err != nil {
				return n, err
			}
		}
		n += g.NumRows()
	}
	return n, nil
}

func readPages(pages parquet.Pages, values []parquet.Value) error {
	defer pages.Close()
	for {
		page, err := pages.ReadPage()
		if err != nil {
			return atEnd(err)
		}
		for r := page.Values(); err == nil; {
			_, err = r.ReadValues(values)
		}
		parquet.Release(page)
		if err = atEnd(err); err != nil {
			return err
		}
	}
}

// atEnd returns nil at the end of a file, otherwise err.
func atEnd(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

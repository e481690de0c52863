// Package input measures how fast files of records become batches, beside a
// library that cuts the same files into fields.
//
// What is measured is what training does: reading, cutting, checking, encoding,
// without the first batches, in which buffers grow, and without the pass that
// counts. The files are in the page cache by then. It is the caller's to limit
// the cores.
package input

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/wdlrun/wdlrun/data"
)

// Options say what is read. Batch and Time 0 are the defaults.
type Options struct {
	Source  data.Source
	Schema  data.Schema
	Files   []string
	Batch   int           // records of a batch; default 1024
	Shuffle bool          // in a shuffled order, as training does; else in that of the files
	Time    time.Duration // of measuring, at least one pass; default 2 s
}

// Result are the figures of one run.
type Result struct {
	Format           string  `json:"format"`
	Records          int64   `json:"records"` // that were measured
	RecordsPerSecond float64 `json:"records_per_second"`
	BytesPerSecond   float64 `json:"bytes_per_second"` // of the files as they lie there
	AllocsPerRecord  float64 `json:"allocs_per_record"`
	// encoding/csv on the same files, plain csv and tsv only; 0: not measured.
	CSVRecordsPerSecond float64 `json:"encoding_csv_records_per_second,omitempty"`
}

const (
	defaultBatch = 1024
	defaultTime  = 2 * time.Second
	warmup       = 8 // batches in which buffers grow
	window       = 4096
)

// Run measures.
func Run(ctx context.Context, o Options) (Result, error) {
	r := Result{Format: o.Source.Format}
	if r.Format == "" {
		r.Format = data.Formats()[0]
	}
	if o.Batch == 0 {
		o.Batch = defaultBatch
	}
	if o.Time == 0 {
		o.Time = defaultTime
	}
	d, err := data.Open(o.Source, o.Schema, o.Files)
	if err != nil {
		return r, err
	}
	fit := data.NewFit(o.Schema)
	counts, err := d.Scan(ctx, 0, 1, fit, nil)
	if err != nil {
		return r, err
	}
	if err := d.Use(counts); err != nil {
		return r, err
	}
	e, err := data.NewEncoder(fit)
	if err != nil {
		return r, err
	}
	var m meter
	for epoch := int64(0); epoch == 0 || m.records > 0 && m.spent < o.Time; epoch++ {
		if err := m.pass(ctx, d, e, o, epoch); err != nil {
			return r, err
		}
	}
	if m.records == 0 {
		return r, fmt.Errorf("bench: input: %d records are too few to measure; use more, or a smaller batch than %d", d.Rows(data.All), o.Batch)
	}
	r.Records, r.RecordsPerSecond = m.records, float64(m.records)/m.spent.Seconds()
	r.BytesPerSecond = r.RecordsPerSecond * float64(d.Bytes()) / float64(d.Rows(data.All))
	r.AllocsPerRecord = float64(m.allocs) / float64(m.records)
	r.CSVRecordsPerSecond, err = byCSV(d.Names(), r.Format, o.Source.Delimiter)
	return r, err
}

// meter adds up what passes took.
type meter struct {
	records int64
	spent   time.Duration
	allocs  uint64
}

// pass reads the records once.
func (m *meter) pass(ctx context.Context, d *data.Dataset, e *data.Encoder, o Options, epoch int64) error {
	c := data.ReaderConfig{GlobalBatch: o.Batch, Seed: 1, Epoch: epoch, Shuffle: o.Shuffle, Select: data.All}
	if !o.Shuffle {
		c.Lanes, c.Window = 1, window
	}
	r, err := data.NewReader(d, e, c)
	if err != nil {
		return err
	}
	defer r.Close()
	var before, after runtime.MemStats
	var began time.Time
	for n := 0; ; n++ {
		if n == warmup {
			runtime.ReadMemStats(&before)
			began = time.Now()
		}
		b, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			if n > warmup {
				m.spent += time.Since(began)
				runtime.ReadMemStats(&after)
				m.allocs += after.Mallocs - before.Mallocs
			}
			return nil
		}
		if err != nil {
			return err
		}
		if n >= warmup {
			m.records += int64(b.Rows)
		}
		r.Recycle(b)
	}
}

// byCSV cuts files with encoding/csv, which reads what it can of them.
func byCSV(names []string, format, delimiter string) (float64, error) {
	comma := '\t'
	switch {
	case format == "csv" && delimiter != "":
		comma = rune(delimiter[0])
	case format == "csv":
		comma = ','
	case format != "tsv" && format != "criteo":
		return 0, nil
	}
	records, began := int64(0), time.Now()
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return 0, nil // built in
		}
		r := csv.NewReader(f)
		r.Comma, r.ReuseRecord, r.LazyQuotes, r.FieldsPerRecord = comma, true, true, -1
		for err == nil {
			if _, err = r.Read(); err == nil {
				records++
			}
		}
		f.Close()
		if err != io.EOF {
			return 0, nil // packed, or of other quotes
		}
	}
	return float64(records) / time.Since(began).Seconds(), nil
}

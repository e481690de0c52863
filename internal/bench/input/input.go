// Package input measures how fast files of records become batches. It compares this with a
// library that reads the values of the same files, by turns in one run: encoding/csv for text,
// a decoder by protoc-gen-go for TFRecord, encoding/json for JSON objects, parquet-go for
// Parquet.
//
// It measures the work of training: reading, splitting, checking, encoding, and optionally
// shuffling, without the first pass that counts records. The files are in the page cache by
// then. The caller limits the cores.
package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/wdl/report"
)

// Options describe what is read. Batch and Time 0 mean the defaults.
type Options struct {
	Source  schema.Source
	Schema  schema.Schema
	Files   []string
	Batch   int           // records per batch; default 1024
	Shuffle bool          // in shuffled order, as in training; else in the order of the files
	Time    time.Duration // duration of the measurement, at least one round; default 2 s
}

// Result contains the metrics of one run. A round is one pass over the files, then one by
// the library, which ends early once Time is past.
type Result struct {
	Format           string  `json:"format"`
	Records          int64   `json:"records"` // in all rounds
	RecordsPerSecond float64 `json:"records_per_second"`
	BytesPerSecond   float64 `json:"bytes_per_second"`  // of the files as stored
	AllocsPerRecord  float64 `json:"allocs_per_record"` // after buffers have grown

	Library                 string  `json:"beside,omitempty"` // library compared with; empty: none for these files
	LibraryRecordsPerSecond float64 `json:"beside_records_per_second,omitempty"`
	Ratio                   float64 `json:"ratio,omitempty"`     // own rate divided by the library's, median of the rounds
	CPURatio                float64 `json:"cpu_ratio,omitempty"` // the same by CPU time, on which other programs have little influence
	Rounds                  int     `json:"rounds"`
}

const (
	defaultBatch = 1024
	defaultTime  = 2 * time.Second
	warmup       = 8 // batches in which buffers grow
)

// Run makes the measurement.
func Run(ctx context.Context, o Options) (Result, error) {
	r := Result{Format: o.Source.Format}
	if r.Format == "" {
		r.Format = schema.Formats()[0]
	}
	if o.Batch == 0 {
		o.Batch = defaultBatch
	}
	if o.Time == 0 {
		o.Time = defaultTime
	}
	d, e, err := prepare(ctx, o)
	if err != nil {
		return r, err
	}
	m := meter{dataset: d, encoder: e, options: o}
	other := libraryFor(o.Source)
	for began := time.Now(); r.Rounds == 0 || time.Since(began) < o.Time; r.Rounds++ {
		began := report.ProcessTime()
		own, err := m.pass(ctx, int64(r.Rounds))
		if err != nil {
			return r, err
		}
		cpu := float64(report.ProcessTime()-began) / float64(d.Rows(data.All))
		if other != nil && !m.compare(other, own, cpu) {
			other = nil
		}
	}
	r.Records, r.RecordsPerSecond = m.records, float64(m.records)/m.spent.Seconds()
	r.BytesPerSecond = r.RecordsPerSecond * float64(d.Bytes()) / float64(d.Rows(data.All))
	r.AllocsPerRecord = float64(m.allocs) / float64(m.steady)
	if other != nil {
		slices.Sort(m.ratios)
		slices.Sort(m.cpuRatios)
		r.Library, r.LibraryRecordsPerSecond = other.name, float64(m.otherRecords)/m.otherSpent.Seconds()
		r.Ratio = m.ratios[len(m.ratios)/2]
		if n := len(m.cpuRatios); n > 0 {
			r.CPURatio = m.cpuRatios[n/2]
		}
	}
	return r, nil
}

// prepare makes the preparations of a training before its first step.
func prepare(ctx context.Context, o Options) (*data.Dataset, *encode.Encoder, error) {
	d, err := data.Open(o.Source, o.Schema, o.Files)
	if err != nil {
		return nil, nil, err
	}
	fit := encode.NewFit(o.Schema)
	counts, err := d.Scan(ctx, 0, 1, fit, nil)
	if err != nil {
		return nil, nil, err
	}
	if err := d.Use(counts); err != nil {
		return nil, nil, err
	}
	if n := d.Rows(data.All); n <= int64(warmup*o.Batch) {
		return nil, nil, fmt.Errorf("bench: input: %d records are too few to measure in batches of %d: use more than %d, or -batch N below %d", n, o.Batch, warmup*o.Batch, (n+warmup-1)/warmup)
	}
	e, err := encode.NewEncoder(fit)
	return d, e, err
}

// meter sums the times of rounds.
type meter struct {
	dataset *data.Dataset
	encoder *encode.Encoder
	options Options

	records, steady int64 // all records; those after the warmup
	spent           time.Duration
	allocs          uint64
	otherRecords    int64
	otherSpent      time.Duration
	ratios          []float64
	cpuRatios       []float64
}

// pass reads the records once and returns the records per second.
func (m *meter) pass(ctx context.Context, epoch int64) (float64, error) {
	c := data.ReaderConfig{GlobalBatch: m.options.Batch, Seed: 1, Epoch: epoch, Shuffle: m.options.Shuffle, Select: data.All}
	began := time.Now()
	r, err := data.NewReader(m.dataset, m.encoder, c)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	var before, after runtime.MemStats
	records := int64(0)
	for n := 0; ; n++ {
		if n == warmup {
			runtime.ReadMemStats(&before)
		}
		b, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		if records += int64(b.Rows); n >= warmup {
			m.steady += int64(b.Rows)
		}
		r.Recycle(b)
	}
	spent := time.Since(began)
	runtime.ReadMemStats(&after)
	m.allocs += after.Mallocs - before.Mallocs
	m.records += records
	m.spent += spent
	return float64(records) / spent.Seconds(), nil
}

// compare reads the same files with another library. It returns false if the library cannot
// read them, because they are compressed or built in. own is the reader's number of records
// per second, cpu its processor time per record in nanoseconds.
func (m *meter) compare(other *library, own, cpu float64) bool {
	beganCPU := report.ProcessTime()
	began, records := time.Now(), int64(0)
	for _, name := range m.dataset.Names() {
		n, err := other.read(name, began.Add(m.options.Time))
		if err != nil || n == 0 && records == 0 {
			return false
		}
		records += n
	}
	spent := time.Since(began)
	m.otherRecords += records
	m.otherSpent += spent
	if cpu > 0 {
		m.cpuRatios = append(m.cpuRatios, float64(report.ProcessTime()-beganCPU)/float64(records)/cpu)
	}
	m.ratios = append(m.ratios, own*spent.Seconds()/float64(records))
	return true
}

// Package input measures how fast files of records become batches.
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
	"time"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/train/report"
)

// Options describe what is read.
type Options struct {
	Source  schema.Source
	Schema  schema.Schema
	Files   []string
	Batch   int           // records per batch
	Shuffle bool          // in shuffled order, as in training; else in the order of the files
	Time    time.Duration // duration of the measurement, at least one round
}

// Result contains the metrics of one run. A round is one pass over the files.
type Result struct {
	Format           string  `json:"format"`
	Records          int64   `json:"records"` // in all rounds
	RecordsPerSecond float64 `json:"records_per_second"`
	CPUPerRecord     float64 `json:"cpu_ns_per_record"` // unlike time, hardly depends on what else runs
	BytesPerSecond   float64 `json:"bytes_per_second"`  // of the files as stored
	AllocsPerRecord  float64 `json:"allocs_per_record"` // after buffers have grown
	Rounds           int     `json:"rounds"`
}

// warmup is the number of batches in which buffers grow.
const warmup = 8

// Run makes the measurement.
func Run(ctx context.Context, o Options) (Result, error) {
	r := Result{Format: o.Source.Format}
	if r.Format == "" {
		r.Format = schema.Formats()[0]
	}
	d, e, err := prepare(ctx, o)
	if err != nil {
		return r, err
	}
	m := meter{dataset: d, encoder: e, options: o}
	for began := time.Now(); r.Rounds == 0 || time.Since(began) < o.Time; r.Rounds++ {
		if err := m.pass(ctx, int64(r.Rounds)); err != nil {
			return r, err
		}
	}
	r.Records, r.RecordsPerSecond = m.records, float64(m.records)/m.spent.Seconds()
	r.CPUPerRecord = float64(m.cpu.Nanoseconds()) / float64(m.records)
	r.BytesPerSecond = r.RecordsPerSecond * float64(d.Bytes()) / float64(d.Rows(data.All))
	r.AllocsPerRecord = float64(m.allocs) / float64(m.steady)
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
	spent, cpu      time.Duration
	allocs          uint64
}

// pass reads the records once.
func (m *meter) pass(ctx context.Context, epoch int64) error {
	c := data.ReaderConfig{GlobalBatch: m.options.Batch, Seed: 1, Epoch: epoch, Shuffle: m.options.Shuffle, Select: data.All}
	began, cpu := time.Now(), report.ProcessTime()
	r, err := data.NewReader(m.dataset, m.encoder, c)
	if err != nil {
		return err
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
			return err
		}
		if records += int64(b.Rows); n >= warmup {
			m.steady += int64(b.Rows)
		}
		r.Recycle(b)
	}
	m.spent, m.cpu = m.spent+time.Since(began), m.cpu+report.ProcessTime()-cpu
	runtime.ReadMemStats(&after)
	m.allocs += after.Mallocs - before.Mallocs
	m.records += records
	return nil
}

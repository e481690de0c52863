package data

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// numbered writes a file of records that contain their own number, with blank lines and
// comments between them.
func numbered(t testing.TB, records, width int) string {
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for i := range records {
		fmt.Fprintf(&b, "%d,%s,%d\n", i, strings.Repeat("x", r.IntN(width)), i%2)
		switch r.IntN(20) {
		case 0:
			b.WriteString("\n")
		case 1:
			b.WriteString("# no record, 1\r\n")
		}
	}
	return datatest.Write(t, "numbered.csv", b.String())
}

func numberedSource() schema.Source {
	return schema.Source{Fields: []string{"n", "x", "y"}, Comment: "#"}
}

func numberedSchema() schema.Schema {
	return schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "n", Encode: "id"}}}
}

// rowsOf checks that each row of the batches matches its number, and returns the numbers.
func rowsOf(t testing.TB, batches []*encode.Batch) (rows []uint64) {
	t.Helper()
	for _, b := range batches {
		for i, id := range b.RowID {
			if b.Sparse[0].Values[i] != id || b.Label[i] != float32(id%2) {
				t.Fatalf("row %d holds record %d with label %v", id, b.Sparse[0].Values[i], b.Label[i])
			}
		}
		rows = append(rows, b.RowID...)
	}
	return rows
}

// packedParts writes the lines of a file into n packed files, and returns their pattern.
func packedParts(t testing.TB, path string, n int) string {
	t.Helper()
	text, err := os.ReadFile(path)
	fatal.If(t, err)
	lines, dir := bytes.SplitAfter(text, []byte("\n")), t.TempDir()
	for i := range n {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		for _, line := range lines[i*len(lines)/n : (i+1)*len(lines)/n] {
			z.Write(line)
		}
		fatal.If(t, z.Close())
		fatal.If(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.csv.gz", i)), b.Bytes(), 0o644))
	}
	return filepath.Join(dir, "*.gz")
}

// The rows of every step, joined over ranks, are the same for any P and any point of
// resuming, and an epoch is every row once.
func TestReaderOnAnyNumberOfRanks(t *testing.T) {
	path := numbered(t, numberedRecords, 60)
	for _, limits := range []limits{{minGroup, maxHeld}, tiny} {
		readerOnAnyNumberOfRanks(t, limits, path)
	}
	readerOnAnyNumberOfRanks(t, tiny, packedParts(t, path, 40))
}

const numberedRecords = 20000

func readerOnAnyNumberOfRanks(t *testing.T, limits limits, path string) {
	const records = numberedRecords
	d, fit := prepareWithin(t, limits, numberedSource(), numberedSchema(), 3, path)
	e := newEncoder(t, fit)
	if d.Rows(All) != records || len(d.set.Blocks) < 5 {
		t.Fatalf("%d records in %d blocks", d.Rows(All), len(d.set.Blocks))
	}
	c := ReaderConfig{Seed: 5, Epoch: 2, GlobalBatch: 1500, Shuffle: true}
	whole := readAll(t, d, e, c)
	rows := rowsOf(t, whole)
	if slices.IsSorted(rows) {
		t.Error("the order is the file's")
	}
	sorted := slices.Clone(rows)
	slices.Sort(sorted)
	for i := range sorted {
		if sorted[i] != uint64(i) {
			t.Fatalf("place %d of the sorted epoch is row %d", i, sorted[i])
		}
	}
	for _, p := range []int{2, 3, 7, 64, 70} {
		steps := make([][]uint64, len(whole))
		for r := range p {
			c := c
			c.Rank, c.Size = r, p
			batches := readAll(t, d, e, c)
			if len(batches) != len(whole) {
				t.Fatalf("rank %d of %d has %d steps, want %d", r, p, len(batches), len(whole))
			}
			for i, b := range batches {
				steps[i] = append(steps[i], b.RowID...)
			}
		}
		for i, got := range steps {
			want := slices.Clone(whole[i].RowID)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("step %d: %d ranks read other rows than one", i, p)
			}
		}
	}
	for _, start := range []int64{1, 1500, 7777, records - 1, records} {
		c := c
		c.Start, c.GlobalBatch = start, 999
		got := rowsOf(t, readAll(t, d, e, c))
		// Another batch size orders the rows of a step differently, but the same
		// rows are left.
		want := slices.Clone(rows[start:])
		if start%1500 != 0 && start != records {
			c.Start, c.GlobalBatch = 0, int(start)
			want = rowsOf(t, readAll(t, d, e, c)[1:])
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("from %d on %d rows are left, want %d, or others", start, len(got), len(want))
		}
	}
}

func TestReaderOfAnything(t *testing.T) {
	type dataset struct {
		*Dataset
		*encode.Encoder
	}
	var sets []dataset
	for i, n := range []int{1, 2, 63, 1000, 63, 1000} {
		d, err := Open(numberedSource(), numberedSchema(), []string{numbered(t, n, 200)})
		fatal.If(t, err)
		if i > 3 {
			d.limits = tiny
		}
		fatal.If(t, d.HoldOut(.3, uint64(n)))
		fit, counts := scanAll(t, d, numberedSchema(), 2)
		fatal.If(t, d.Use(counts))
		sets = append(sets, dataset{d, newEncoder(t, fit)})
	}
	rapid.Check(t, func(rt *rapid.T) {
		s := sets[rapid.IntRange(0, len(sets)-1).Draw(rt, "set")]
		p := rapid.IntRange(1, 5).Draw(rt, "ranks")
		c := ReaderConfig{
			Seed: rapid.Uint64().Draw(rt, "seed"), GlobalBatch: rapid.IntRange(1, 400).Draw(rt, "batch"), Size: p,
			Shuffle: rapid.Bool().Draw(rt, "shuffle"), Depth: rapid.IntRange(1, 5).Draw(rt, "depth"),
		}
		c.Apart = !c.Shuffle && rapid.Bool().Draw(rt, "apart")
		var rows []uint64
		for _, sel := range []Select{Train, Valid} {
			steps := Steps(s.Rows(sel), c.GlobalBatch)
			for r := range p {
				c.Rank, c.Select = r, sel
				batches := readAll(t, s.Dataset, s.Encoder, c)
				if int64(len(batches)) != steps {
					rt.Fatalf("%d steps, want %d", len(batches), steps)
				}
				rows = append(rows, rowsOf(t, batches)...)
			}
		}
		slices.Sort(rows)
		if int64(len(rows)) != s.Rows(All) || s.Rows(Train)+s.Rows(Valid) != s.Rows(All) || len(slices.Compact(rows)) != len(rows) {
			rt.Fatalf("training and validation have %d rows, want %d", len(rows), s.Rows(All))
		}
	})
}

// Ranks that read apart read consecutive parts of the data.
func TestRanksReadApart(t *testing.T) {
	path := numbered(t, numberedRecords, 60)
	for _, path := range []string{path, packedParts(t, path, 5)} {
		d, fit := prepareWithin(t, tiny, numberedSource(), numberedSchema(), 1, path)
		for _, p := range []int{1, 3, 8} {
			var rows []uint64
			for r := range p {
				rows = append(rows, rowsOf(t, readAll(t, d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 1000, Rank: r, Size: p, Apart: true}))...)
			}
			if !slices.IsSorted(rows) || len(rows) != numberedRecords {
				t.Errorf("%s: %d ranks read %d records, in order: %v", path, p, len(rows), slices.IsSorted(rows))
			}
		}
	}
}

// Statistics do not include held-out records.
func TestHeldOutRowsAreNotFitted(t *testing.T) {
	s := schema.Schema{Label: schema.Label{Field: "y"}, Features: []schema.Feature{{Field: "n", Encode: "vocabulary"}}}
	d, err := Open(numberedSource(), s, []string{numbered(t, 3000, 60)})
	fatal.If(t, err)
	fatal.If(t, d.HoldOut(.25, 1))
	fit, counts := scanAll(t, d, s, 3)
	fatal.If(t, d.Use(counts))
	e := newEncoder(t, fit)
	v := fit.Vocabularies()[0]
	if v.Distinct != d.Rows(Train) || v.Distinct < 2000 || v.Distinct > 2500 {
		t.Errorf("%d distinct strings in %d training rows", v.Distinct, d.Rows(Train))
	}
	if v.Unknown < v.Distinct/20 || v.Unknown > v.Distinct/7 {
		t.Errorf("%d of %d strings that occur once train the row of the unknown, want a tenth", v.Unknown, v.Distinct)
	}
	for sel, want := range map[Select]int64{Train: v.Unknown, Valid: d.Rows(Valid)} {
		unknown := int64(0)
		for _, b := range readAll(t, d, e, ReaderConfig{GlobalBatch: 500, Select: sel}) {
			for _, k := range b.Sparse[0].Values {
				if k == encode.KeyUnknown {
					unknown++
				}
			}
		}
		if unknown != want {
			t.Errorf("selection %d: %d values are unknown, want %d", sel, unknown, want)
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	d, err := Open(numberedSource(), numberedSchema(), []string{numbered(t, 10, 5)})
	fatal.If(t, err)
	e := newEncoder(t, encode.NewFit(numberedSchema()))
	if _, err := NewReader(d, e, ReaderConfig{GlobalBatch: 1}); err == nil || !strings.Contains(err.Error(), "Scan") {
		t.Errorf("before Use: %v", err)
	}
	if err := d.Use(&Counts{dataset: d.digest}); err == nil {
		t.Error("counts of no block were used")
	}
	if err := d.Use(new(Counts)); err == nil {
		t.Error("counts of another dataset were used")
	}
	_, counts := scanAll(t, d, numberedSchema(), 1)
	fatal.If(t, d.Use(counts))
	if d.HoldOut(.5, 1) == nil || d.HoldOut(1, 1) == nil {
		t.Error("HoldOut after Use")
	}
	for _, c := range []ReaderConfig{
		{}, {GlobalBatch: -1}, {GlobalBatch: 1, Rank: 1}, {GlobalBatch: 1, Size: -1},
		{GlobalBatch: 1, Start: 11}, {GlobalBatch: 1, Start: -1},
		{GlobalBatch: 1, Depth: -1}, {GlobalBatch: 1, Select: 3},
		{GlobalBatch: 1, Apart: true, Shuffle: true}, {GlobalBatch: 1, Apart: true, Start: 1},
	} {
		if r, err := NewReader(d, e, c); err == nil {
			r.Close()
			t.Errorf("%+v was accepted", c)
		}
	}
	s := numberedSchema()
	s.Features[0].Field = "m"
	if _, err := NewReader(d, newEncoder(t, encode.NewFit(s)), ReaderConfig{GlobalBatch: 1}); err == nil || !strings.Contains(err.Error(), `no field "m"`) {
		t.Errorf("an encoder of other fields: %v", err)
	}
}

func TestReaderPositionAndClose(t *testing.T) {
	d, fit := prepare(t, adultSource(), adultSchema(), 1, "builtin:adult.data")
	r, err := NewReader(d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 64, Shuffle: false})
	fatal.If(t, err)
	if got := r.Position(); got != "" && !strings.HasPrefix(got, "adult.data") {
		t.Errorf("before the first batch: %q", got)
	}
	b, err := r.Next(context.Background())
	fatal.If(t, err)
	if got := r.Position(); got != "adult.data offset 0, row 0" {
		t.Errorf("Position = %q", got)
	}
	r.Recycle(b)
	if _, err := r.Next(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := r.Position(); !strings.HasSuffix(got, ", row 64") {
		t.Errorf("Position = %q", got)
	}
	r.Close()
	r.Close()
	if _, err := r.Next(context.Background()); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("Next after Close: %v", err)
	}
}

func TestNextEndsWithItsContext(t *testing.T) {
	r := &Reader{ahead: ahead{out: make(chan *draft)}}
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("rank 3 died")
	cancel(cause)
	if _, err := r.Next(ctx); !errors.Is(err, cause) {
		t.Errorf("Next: %v", err)
	}
}

// Close does not wait forever for a read that does not return.
func TestCloseLeavesAHangingRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Reader{ahead: ahead{ended: make(chan struct{}), cancel: func() {}}}
		began := time.Now()
		r.Close()
		if took := time.Since(began); took != closeWait {
			t.Errorf("Close took %v", took)
		}
	})
}

func TestReaderDoesNotAllocatePerRecord(t *testing.T) {
	d, fit := prepare(t, adultSource(), adultSchema(), 1, "builtin:adult.data", "builtin:adult.test")
	r, err := NewReader(d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 256, Epochs: 4, Shuffle: true})
	fatal.If(t, err)
	defer r.Close()
	next := func() {
		b, err := r.Next(context.Background())
		if err == io.EOF { // of an epoch
			b, err = r.Next(context.Background())
		}
		fatal.If(t, err)
		r.Recycle(b)
	}
	untilAhead(t, r) // with all drafts that there will be
	for range 100 {
		next()
	}
	const steps = 80
	least := math.Inf(1)
	for range 5 { // the number of buffers that still grow depends on the scheduling of goroutines
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range steps {
			next()
		}
		runtime.ReadMemStats(&after)
		least = min(least, float64(after.Mallocs-before.Mallocs)/(steps*256))
	}
	if least > .05 {
		t.Errorf("%.3f allocations per record", least)
	}
}

// An encoder may reject a record that the scan accepted; the fault has its line in any
// block.
func TestReaderFaultHasItsLine(t *testing.T) {
	path := numbered(t, 9000, 60)
	s := numberedSchema()
	s.Features = append(s.Features, schema.Feature{Field: "x", Encode: "hash"})
	d, _ := prepare(t, numberedSource(), s, 1, path)
	if len(d.set.Blocks) < 3 {
		t.Fatalf("%d blocks", len(d.set.Blocks))
	}
	s.Features[1].Encode = "raw"
	r, err := NewReader(d, newEncoder(t, encode.NewFit(s)), ReaderConfig{GlobalBatch: 1, Start: 8000})
	fatal.If(t, err)
	defer r.Close()
	_, err = r.Next(context.Background())
	var f *record.Fault
	if !errors.As(err, &f) || f.Column != "x" {
		t.Fatalf("Next: %v", err)
	}
	content, err := os.ReadFile(path)
	fatal.If(t, err)
	lines := strings.Split(string(content), "\n")
	if got := lines[f.Line-1]; !strings.HasPrefix(got, "8000,") || len(got) < len("8000,x,0") {
		t.Errorf("line %d is %q", f.Line, got)
	}
}

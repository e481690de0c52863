package data

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// epochsOf reads the given number of epochs, and checks each batch.
func epochsOf(t *testing.T, r *Reader, e *encode.Encoder, epochs int) (all [][]uint64) {
	t.Helper()
	for range epochs {
		var rows []uint64
		for {
			b, err := r.Next(context.Background())
			if errors.Is(err, io.EOF) {
				break
			}
			fatal.If(t, err)
			checkShape(t, b, e)
			rows = append(rows, rowsOf(t, []*encode.Batch{b})...)
			r.Recycle(b)
		}
		all = append(all, rows)
	}
	for range 2 {
		if _, err := r.Next(context.Background()); !errors.Is(err, io.EOF) {
			t.Fatalf("behind the last epoch: %v", err)
		}
	}
	return all
}

// TestEpochsFollowEachOther: a reader of several epochs returns the same batches as one reader
// per epoch, with any number of threads, and with or without kept rows.
func TestEpochsFollowEachOther(t *testing.T) {
	for _, packing := range []string{"", ".gz"} {
		src, schema := datatest.Fields("csv")
		d, fit := prepare(t, src, schema, 2, datatest.Files(t, packing, datatest.Pack(t, packing, datatest.Numbered(t, "csv", 0, 1500)), datatest.Pack(t, packing, datatest.Numbered(t, "csv", 1500, 3000))))
		e := newEncoder(t, fit)
		c := ReaderConfig{Seed: 5, Epoch: 1, GlobalBatch: 130, Shuffle: true, Rank: 1, Size: 2, Start: 777}
		const epochs = 3
		var want [][]uint64
		for i := range epochs {
			c := c
			if c.Epoch += int64(i); i > 0 {
				c.Start = 0
			}
			want = append(want, rowsOf(t, readAll(t, d, e, c)))
		}
		c.Epochs = epochs
		for _, helpers := range []int{0, 3} {
			r, err := NewReader(d, e, c)
			fatal.If(t, err)
			for range helpers {
				b, err := d.newDraftCoder(e)
				fatal.If(t, err)
				b.memo = r.memo
				go r.help(b)
			}
			got := epochsOf(t, r, e, epochs)
			r.Close()
			for i := range want {
				if !slices.Equal(got[i], want[i]) {
					t.Errorf("%q, %d helpers: epoch %d has %d rows, want %d, or in another order", packing, helpers, i, len(got[i]), len(want[i]))
				}
			}
			if p := r.Pace(); p.Work <= 0 || p.Depth < defaultDepth || p.Threads < 1 {
				t.Errorf("%+v", p)
			}
		}
	}
}

// Rows of any length are kept while there is room, and returned unchanged.
func TestMemo(t *testing.T) {
	if m := newMemo(maxMemo/8, 1); m != nil {
		t.Error("too many rows are kept")
	}
	const rows = 3000
	row := func(id int) []uint64 {
		r := make([]uint64, 1+id*7%9000) // more than maxMemo in all
		for i := range r {
			r[i] = uint64(id)<<32 | uint64(i)
		}
		return r
	}
	m := newMemo(rows, 2)
	for id := range rows {
		m.put(uint64(id), row(id))
		m.put(uint64(id), []uint64{1})
	}
	kept := 0
	for id := range rows {
		got := m.get(uint64(id))
		if got == nil {
			continue
		}
		if kept += len(got); !slices.Equal(got, row(id)) {
			t.Fatalf("row %d of %d words is returned as %d words", id, len(row(id)), len(got))
		}
	}
	if kept > maxMemo/8 || kept < maxMemo/8*8/10 {
		t.Errorf("%d words are kept, of at most %d", kept, maxMemo/8)
	}
	m.put(0, make([]uint64, memoChunk))
	var none *memo
	none.put(0, []uint64{0})
	if none.get(0) != nil {
		t.Error("no memo keeps a row")
	}
}

// untilAhead waits until a reader is as far ahead as its depth, while no batch is taken.
func untilAhead(t *testing.T, r *Reader) {
	t.Helper()
	for end := time.Now().Add(patient.Longest); len(r.out) < r.Pace().Depth; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d batches are ahead, want %d", len(r.out), r.Pace().Depth)
		}
	}
}

// TestSmallBatchesAreReadFarAhead: small batches are read far ahead before any wait. Large
// batches, and batches of a requested depth, are not.
func TestSmallBatchesAreReadFarAhead(t *testing.T) {
	d, fit := prepare(t, numberedSource(), numberedSchema(), 1, numbered(t, 3000, 20))
	e := newEncoder(t, fit)
	for _, c := range []struct {
		config ReaderConfig
		depth  int // 0: as many as have a token
	}{
		{ReaderConfig{GlobalBatch: 10, Epochs: 2}, growDepth},
		{ReaderConfig{GlobalBatch: 10, Epochs: 2, Depth: 3}, 3},
		{ReaderConfig{GlobalBatch: 1000, Epochs: 40}, 0},
	} {
		r, err := NewReader(d, e, c.config)
		fatal.If(t, err)
		untilAhead(t, r)
		r.Close()
		if want := int(min(soonAhead/r.size.Load(), growDepth)); c.depth == 0 {
			c.depth = max(want, defaultDepth)
		}
		if p := r.Pace(); p.Depth != c.depth {
			t.Errorf("%+v: depth %d, want %d of %d bytes", c.config, p.Depth, c.depth, r.size.Load())
		}
	}
}

// TestWorkOfTheReader: the reported periods of work follow each other and contain every batch
// of both epochs.
func TestWorkOfTheReader(t *testing.T) {
	d, fit := prepare(t, numberedSource(), numberedSchema(), 1, numbered(t, 3000, 20))
	total, ended := 0, time.Now()
	r, err := NewReader(d, newEncoder(t, fit), ReaderConfig{GlobalBatch: 10, Epochs: 2, Depth: 4, Worked: func(from, to time.Time, batches int) {
		if from.Before(ended) || to.Before(from) || batches < 1 {
			t.Errorf("%d batches from %v to %v, after %v", batches, from, to, ended)
		}
		total, ended = total+batches, to
	}})
	fatal.If(t, err)
	for range 2 {
		for {
			b, err := r.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			fatal.If(t, err)
			r.Recycle(b)
		}
	}
	r.Close()
	if total != 600 {
		t.Errorf("%d batches in all, want 600", total)
	}
}

// TestAdjust: the change made by adjust depends on the loader's work before the wait.
func TestAdjust(t *testing.T) {
	d, fit := prepare(t, numberedSource(), numberedSchema(), 1, numbered(t, 100, 20))
	r := &Reader{ahead: newAhead(d, newEncoder(t, fit), ReaderConfig{Depth: 4, Threads: 2})}
	defer close(r.offer)
	r.oneCPU = false
	r.deepen(4)
	r.threads.Store(1)
	r.size.Store(maxAhead / 16)
	is := func(depth, threads int) {
		t.Helper()
		if p := r.Pace(); p.Depth != depth || p.Threads != threads || len(r.tokens) != depth {
			t.Errorf("%+v and %d tokens, want depth %d and threads %d", p, len(r.tokens), depth, threads)
		}
	}
	adjust := func(rested time.Duration, times int) {
		for range times {
			r.rested.Store(int64(rested))
			r.making.Store(int64(time.Millisecond))
			r.adjust()
		}
	}
	adjust(time.Second, 9)
	is(4, 1) // nothing was returned
	r.given = true
	adjust(2*time.Millisecond, 1)
	is(8, 1)
	adjust(time.Microsecond, maxBusyWaits-1)
	is(8, 1)
	adjust(2*time.Millisecond, 9)
	is(16, 1) // no more, because of their size
	adjust(0, maxBusyWaits)
	is(16, 2)
	adjust(0, 9*maxBusyWaits)
	is(16, 2)
}

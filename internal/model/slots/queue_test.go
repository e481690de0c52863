package slots

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// plainQueue is the naive twin of Queue: a list of the remaining microbatches.
type plainQueue []Item

func (q plainQueue) commit(leased int, counted []int) plainQueue {
	var late plainQueue
	n := min(leased, len(q))
	for i, it := range q[:n] {
		if !slices.Contains(counted, i) {
			it.Tries++
			late = append(late, it)
		}
	}
	return append(late, q[n:]...)
}

// drawQueue returns the queue of an epoch and its twin.
func drawQueue(t *rapid.T) (Queue, plainQueue) {
	q := Queue{Epoch: rapid.Int64Range(0, 5).Draw(t, "epoch"), Total: rapid.Int64Range(0, 60).Draw(t, "rows"),
		Size: rapid.Int64Range(1, 7).Draw(t, "size")}
	var twin plainQueue
	for first := int64(0); first < q.Total; first += q.Size {
		twin = append(twin, Item{Batch: Batch{q.Epoch, first, min(q.Size, q.Total-first)}})
	}
	return q, twin
}

func drawCounted(t *rapid.T, n int) (counted []int) {
	for i := range n {
		if rapid.IntRange(0, 3).Draw(t, "counts") > 0 {
			counted = append(counted, i)
		}
	}
	return counted
}

// TestQueueIsItsTwin: after any steps the queue leases what the plain list would, can be
// encoded and decoded, and each microbatch counts once.
func TestQueueIsItsTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, twin := drawQueue(t)
		seen := map[int64]bool{}
		for range 40 {
			fatal.If(t, q.Validate())
			r, err := parseRecord(appendRecord(nil, Record{Queue: q}))
			if err != nil {
				t.Fatalf("%+v: %v", q, err)
			}
			q = r.Queue
			n := rapid.IntRange(1, 9).Draw(t, "slots")
			items := q.Lease(n)
			if want := twin[:min(n, len(twin))]; !slices.Equal(items, []Item(want)) || q.Left() != int64(len(twin)) {
				t.Fatalf("leases %v of %d, the list %v of %d", items, q.Left(), want, len(twin))
			}
			counted := drawCounted(t, len(items))
			for _, i := range counted {
				if seen[items[i].First] {
					t.Fatalf("rows %d count twice", items[i].First)
				}
				seen[items[i].First] = true
			}
			q, twin = q.Commit(n, counted), twin.commit(n, counted)
		}
		if q.Left() == 0 && int64(len(seen)) != (q.Total+q.Size-1)/q.Size {
			t.Fatalf("%d microbatches counted of %d rows", len(seen), q.Total)
		}
	})
}

// TestLogGivesBackEveryStep: the log's reader returns the decisions from a few bytes each.
func TestLogGivesBackEveryStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, _ := drawQueue(t)
		if q.Total == 0 {
			q.Total = 1
		}
		start := Record{Step: 7, Queue: q}
		b, before := AppendLogHeader(nil, start), start
		var want []Record
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			q := before.Queue
			if q.Left() == 0 {
				q = q.NextEpoch()
			}
			items := q.Lease(rapid.IntRange(1, 9).Draw(t, "slots"))
			counted := drawCounted(t, len(items))
			if len(counted) == 0 {
				counted = []int{0}
			}
			r := Record{Step: before.Step + 1, Leased: len(items), Queue: q.Commit(len(items), counted)}
			for _, i := range counted {
				r.Pieces = append(r.Pieces, Piece{Slot: i, Batch: items[i].Batch})
				r.Samples += items[i].Rows
			}
			b = AppendLog(b, before, r)
			want, before = append(want, r), r
		}
		l, err := NewLogReader(bytes.NewReader(b))
		fatal.If(t, err)
		for _, w := range want {
			r, err := l.Next()
			if err != nil || !bytes.Equal(appendRecord(nil, r), appendRecord(nil, w)) {
				t.Fatalf("step %+v is read as %+v: %v", w, r, err)
			}
		}
		if _, err := l.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("after the last step: %v", err)
		}
	})
}

// TestLogTakesFewBytes: 64 slots, four of them late.
func TestLogTakesFewBytes(t *testing.T) {
	q := Queue{Total: 1 << 20, Size: 256}
	counted := make([]int, 0, 64)
	r := Record{Step: 1, Leased: 64}
	for i, it := range q.Lease(64) {
		if i%16 != 3 {
			counted = append(counted, i)
			r.Pieces = append(r.Pieces, Piece{Slot: i, Batch: it.Batch})
		}
	}
	r.Queue = q.Commit(64, counted)
	if n := len(AppendLog(nil, Record{Queue: q}, r)); n != 7 {
		t.Errorf("%d bytes, want 7: two of head, the number and four gaps", n)
	}
}

func FuzzLogReader(f *testing.F) {
	q := Queue{Total: 9, Size: 2}
	start := Record{Queue: q}
	r := Record{Step: 1, Leased: 3, Pieces: []Piece{{Slot: 0, Batch: Batch{0, 0, 2}}, {Slot: 2, Batch: Batch{0, 4, 2}}},
		Samples: 4, Queue: q.Commit(3, []int{0, 2})}
	f.Add(AppendLog(AppendLogHeader(nil, start), start, r))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := NewLogReader(bytes.NewReader(b))
		if err != nil {
			return
		}
		for range 100 {
			before := l.Record()
			r, err := l.Next()
			if err != nil {
				return
			}
			if err := r.Queue.Validate(); err != nil || r.Step != before.Step+1 || r.Samples < 0 {
				t.Fatalf("%+v: %v", r, err)
			}
		}
	})
}

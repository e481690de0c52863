package slots

import (
	"errors"
	"fmt"
	"slices"
)

// Limits of values that are read or configured.
const (
	MaxSlots = 4096     // slots of a step
	MaxRows  = 1 << 50  // rows of an epoch
	maxTries = 1 << 20  // times that a microbatch was late
	maxStep  = 1 << 56  // steps of a run
	maxDone  = 1<<8 - 1 // Report.Done of complete work
)

// Item is a microbatch in the queue and the number of times that it was late.
type Item struct {
	Batch
	Tries int
}

// Queue holds the microbatches of an epoch that are in no commit set yet: first late ones,
// then the rows from Next on. It is a value. Lease does not change it, and Commit returns the
// queue after a step. So the queue of a step is determined by the earlier commit sets, and a
// checkpoint needs only the queue to continue.
type Queue struct {
	Epoch int64
	Total int64  // rows of an epoch
	Size  int64  // rows of a microbatch; the last one of an epoch may have fewer
	Next  int64  // first row that was not in a slot yet
	Late  []Item // leased before but not counted, in descending order of tries
}

// Validate returns all faults of a queue that was read or configured.
func (q Queue) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("slots: queue: "+format, args...)) }
	if q.Epoch < 0 || q.Epoch > MaxRows {
		fault("epoch %d is not within 0 … %d", q.Epoch, int64(MaxRows))
	}
	if q.Total < 0 || q.Total > MaxRows {
		fault("%d rows are not within 0 … %d", q.Total, int64(MaxRows))
	}
	if q.Size < 1 || q.Size > MaxRows {
		fault("microbatches of %d rows are not within 1 … %d", q.Size, int64(MaxRows))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if q.Next < 0 || q.Next > q.Total || q.Next != q.Total && q.Next%q.Size != 0 {
		fault("row %d of %d is not where a microbatch of %d rows begins", q.Next, q.Total, q.Size)
	}
	if len(q.Late) > MaxSlots {
		fault("%d late microbatches, at most %d", len(q.Late), MaxSlots)
	}
	seen := map[int64]bool{}
	for _, it := range q.Late {
		if it.Batch != q.batch(it.First) || it.First < 0 || it.First >= q.Next || it.First%q.Size != 0 || seen[it.First] {
			fault("late microbatch of rows %d + %d in epoch %d is none of those handed out once before row %d", it.First, it.Rows, it.Epoch, q.Next)
		}
		if it.Tries < 1 || it.Tries > maxTries {
			fault("late microbatch at row %d has %d tries", it.First, it.Tries)
		}
		seen[it.First] = true
	}
	return errors.Join(errs...)
}

func (q Queue) batch(first int64) Batch {
	return Batch{Epoch: q.Epoch, First: first, Rows: min(q.Size, q.Total-first)}
}

// Lease returns the microbatches for n slots of the next step, late ones first; fewer at the
// end of an epoch. The list for a smaller n is a prefix of the list for a larger one, so a
// slot number does not depend on n.
func (q Queue) Lease(n int) []Item {
	items := slices.Clone(q.Late[:min(n, len(q.Late))])
	for next := q.Next; len(items) < n && next < q.Total; next += q.Size {
		items = append(items, Item{Batch: q.batch(next)})
	}
	return items
}

// Commit returns the queue after a step with the given number of leased slots, of which those
// in counted (ascending) count. The others are put back first, in slot order.
func (q Queue) Commit(leased int, counted []int) Queue {
	items := q.Lease(leased)
	after := q
	fresh := len(items) - min(len(items), len(q.Late))
	after.Next = min(q.Next+int64(fresh)*q.Size, q.Total)
	after.Late = nil
	for slot, it := range items {
		if _, ok := slices.BinarySearch(counted, slot); !ok {
			it.Tries++
			after.Late = append(after.Late, it)
		}
	}
	after.Late = append(after.Late, q.Late[len(items)-fresh:]...)
	return after
}

// Left returns the number of microbatches left.
func (q Queue) Left() int64 {
	return int64(len(q.Late)) + (q.Total-q.Next+q.Size-1)/q.Size
}

// NextEpoch returns the full queue of the epoch after q's.
func (q Queue) NextEpoch() Queue {
	return Queue{Epoch: q.Epoch + 1, Total: q.Total, Size: q.Size}
}

// Batch is a microbatch: Rows consecutive samples in the order of an epoch.
type Batch struct {
	Epoch, First, Rows int64
}

package table

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// store keeps records by number. The slices that get passes to use are valid during the
// call only.
type store interface {
	put(ids []Row, record func(i int) []byte) error // all or none
	get(ids []Row, use func(i int, record []byte) error) error
	reset() error
	close() error
}

// tier keeps the records of cold rows on disk. Index and notes stay in memory, so that
// looking up keys, ages and scores needs no reading.
type tier struct {
	store store
	limit int64 // bytes of memory
	notes notes
	used  uint32 // numbers used so far
	free  []Row  // numbers of these that are free
	hand  int    // next shard to search for cold rows

	round    int      // number of times rows were moved to disk
	began    [2]int64 // first step of this round, indexed by its last bit, and of the previous one
	returned []uint8  // by row in memory: mark of the round in which it was moved back; 0, or past the end: never on disk
	ids      []Row    // scratch: numbers of rows that are moved or read
	coming   []coming // rows being moved back

	minMemory atomic.Int64 // least limit that would leave enough memory for records; 0: this one does

	ahead  chan struct{}  // closed at the end of the running prefetch; nil: none
	staged map[Row][]byte // records that it has read
	record []float32      // scratch: a record in its format on disk
}

// coming is a row that is being moved to memory.
type coming struct {
	id  Row
	key uint64
}

func (t *tier) rows() int { return int(t.used) - len(t.free) }

// mark returns the mark of a round, which repeats after 255 rounds.
func mark(round int) uint8 { return uint8(1 + round%255) }

// fresh returns 0 unless a row was moved back in this round or the previous one and has not
// been trained since. Such rows are moved to disk last, because a batch that is to be
// trained needs them.
func (t *tier) fresh(row Row, age uint32, now int64) int {
	if int(row) >= len(t.returned) {
		return 0
	}
	for ago := range 2 {
		if round := t.round - ago; t.returned[row] == mark(max(round, 0)) && now-int64(age) <= t.began[round&1] {
			return 2 - ago
		}
	}
	return 0
}

// take returns the i-th number that claim would assign.
func (t *tier) take(i int) Row {
	if i < len(t.free) {
		return t.free[len(t.free)-1-i]
	}
	return Row(t.used) + Row(i-len(t.free)) + 1
}

// claim assigns n numbers.
func (t *tier) claim(n int, scores bool) {
	old := min(n, len(t.free))
	t.free = t.free[:len(t.free)-old]
	t.used += uint32(n - old)
	t.notes.reserve(t.used, scores, false) // no row of a table with a tier decays
}

// forget frees the number of a row on disk. Its record stays until the number is reused.
func (t *tier) forget(r Row) {
	t.free = append(t.free, r&^onDisk)
	t.wait()
	delete(t.staged, r&^onDisk)
}

// read calls use with records of size bytes.
func (t *tier) read(ids []Row, size int, use func(i int, record []byte)) error {
	return t.store.get(ids, func(i int, b []byte) error {
		if len(b) != size {
			return fmt.Errorf("a record of %d bytes, want %d", len(b), size)
		}
		use(i, b)
		return nil
	})
}

// wait waits for the running prefetch.
func (t *tier) wait() {
	if t.ahead != nil {
		<-t.ahead
		t.ahead = nil
	}
}

func (t *tier) reset() error {
	t.wait()
	err := errors.Join(t.store.reset(), t.notes.free())
	t.notes, t.used, t.free, t.hand, t.staged, t.returned = t.notes.empty(), 0, nil, 0, nil, nil
	return err
}

func (t *tier) close() error {
	t.wait()
	return errors.Join(t.store.close(), t.notes.free())
}

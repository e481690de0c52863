package sparse_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/sparse"
)

// wire is the bare exchange with almost no other work: keys go to their owners, rows come back
// and gradients go out, by the calls that package sparse makes. Rank r owns the keys with
// remainder r. A key is sent as the number of its row. The gradient of a row is −rate·row plus
// the gradient of the previous step. It is added to the row, so that values oscillate and stay
// bounded. tests/peers/exchange.c does the same with MPI_Alltoallv.
type wire struct {
	ex         sparse.Exchanger
	visit      func(send []byte, sendCounts, recvCounts []int, visit func(from int, part []byte) error) error
	rank, size int
	dim        int
	table      []float32

	keys    []uint64 // by owner, without this rank's own keys
	grads   []float32
	counts  []int64 // of keys, by owner
	asked   []int64 // by reader
	at      []uint32
	answers []float32
	want    [3][]int // bytes of keys, rows and gradients, by owner
	give    [3][]int // by reader
	samples []float64
}

const (
	keyPart = iota
	rowPart
	gradPart

	rate = 1e-6 // of the gradients of a row
)

// newWire allocates memory for the distinct keys of a batch, in windows if the exchange has
// them.
func newWire(ex sparse.Exchanger, o exchange, batch []uint64) (*wire, error) {
	w := &wire{ex: ex, rank: ex.Rank(), size: ex.Size(), dim: o.dim}
	var err error
	if w.table, err = hugePages((o.domain/w.size + 1) * w.dim); err != nil {
		return nil, err
	}
	for i := range w.table {
		w.table[i] = float32(i%7 + 1)
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(batch)))
	w.counts, w.asked = make([]int64, w.size), make([]int64, w.size)
	p := uint64(w.size)
	for owner := range w.size {
		for _, key := range distinct {
			if key%p == uint64(owner) && owner != w.rank {
				w.keys = append(w.keys, key/p)
				w.counts[owner]++
			}
		}
	}
	for i := range w.want {
		w.want[i], w.give[i] = make([]int, w.size), make([]int, w.size)
	}
	w.visit = (&copies{Exchanger: ex}).AllToAllVisit
	if v, ok := ex.(sparse.Visitor); ok {
		w.visit = v.AllToAllVisit
	}
	if err := w.sendCounts(); err != nil {
		return nil, err
	}
	return w, w.allocate()
}

// hugePages returns n floats outside the Go heap, in huge pages if the system has them, as
// tables do. They are never freed.
func hugePages(n int) ([]float32, error) {
	b, err := unix.Mmap(-1, 0, 4*n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // an error leaves small pages
	return raw.Of[float32](b), nil
}

// allocate allocates the send buffers. If the exchange has windows, other ranks read the buffers
// in place.
func (w *wire) allocate() error {
	alloc := func(n int) ([]byte, error) { return raw.Bytes(make([]uint64, (n+7)/8))[:n], nil }
	if a, ok := w.ex.(sparse.Allocator); ok {
		alloc = a.Alloc
	}
	var rooms [3][]byte
	for i, n := range []int{8 * len(w.keys), 4 * w.dim * len(w.at), 4 * w.dim * len(w.keys)} {
		b, err := alloc(n)
		if err != nil {
			return err
		}
		rooms[i] = b
	}
	keys := raw.Of[uint64](rooms[0])
	copy(keys, w.keys)
	w.keys, w.answers, w.grads = keys, raw.Of[float32](rooms[1]), raw.Of[float32](rooms[2])
	return nil
}

// sendCounts sends the owners the number of keys for them.
func (w *wire) sendCounts() error {
	if err := w.ex.AllToAll(w.counts, w.asked); err != nil {
		return err
	}
	total := 0
	for r := range w.size {
		total += int(w.asked[r])
		for part, bytes := range [3]int{8, 4 * w.dim, 4 * w.dim} {
			w.want[part][r], w.give[part][r] = bytes*int(w.counts[r]), bytes*int(w.asked[r])
		}
	}
	if len(w.at) != total {
		w.at = make([]uint32, total)
	}
	return nil
}

// step exchanges a batch.
func (w *wire) step() error {
	if err := w.sendCounts(); err != nil {
		return err
	}
	at, to := w.at, w.answers
	err := w.visit(raw.Bytes(w.keys), w.want[keyPart], w.give[keyPart], func(_ int, part []byte) error {
		n := len(part) / 8
		w.answer(raw.Of[uint64](part), at[:n], to[:n*w.dim])
		at, to = at[n:], to[n*w.dim:]
		return nil
	})
	if err != nil {
		return err
	}
	grads := w.grads
	err = w.visit(raw.Bytes(w.answers), w.give[rowPart], w.want[rowPart], func(_ int, part []byte) error {
		n := len(part) / 4
		f32.Axpy(grads[:n], -rate, raw.Of[float32](part))
		grads = grads[n:]
		return nil
	})
	if err != nil {
		return err
	}
	at = w.at
	return w.visit(raw.Bytes(w.grads), w.want[gradPart], w.give[gradPart], func(_ int, part []byte) error {
		n := len(part) / (4 * w.dim)
		f32.PoolGrad(w.table, f32.Bags{At: at[:n]}, raw.Of[float32](part), w.dim, w.dim)
		at = at[n:]
		return nil
	})
}

// answer writes the rows of keys and their addresses.
func (w *wire) answer(keys []uint64, at []uint32, rows []float32) {
	for i, key := range keys {
		at[i] = uint32(int(key) * w.dim)
	}
	f32.Pool(rows, w.dim, w.table, f32.Bags{At: at}, w.dim, false)
}

// copies receives by AllToAllV.
type copies struct {
	sparse.Exchanger
	recv []byte
}

// AllToAllVisit shows the parts in memory of this rank.
func (x *copies) AllToAllVisit(send []byte, sendCounts, recvCounts []int, visit func(from int, part []byte) error) error {
	total := 0
	for _, n := range recvCounts {
		total += n
	}
	if len(x.recv) < total {
		x.recv = raw.Bytes(make([]uint64, (total+7)/8))
	}
	recv := x.recv[:total]
	if err := x.AllToAllV(send, sendCounts, recv, recvCounts); err != nil {
		return err
	}
	for r, n := range recvCounts {
		if err := visit(r, recv[:n]); err != nil {
			return err
		}
		recv = recv[n:]
	}
	return nil
}

// wireSteps is the number of steps timed together, so that waiting for the slowest rank counts
// as in a training.
const wireSteps = 4

// runWire measures the bare exchange on both paths in alternation.
func runWire(c *collective.Comm, o exchange, batch []uint64, emit func(line)) error {
	var paths [2]*wire
	for i, x := range []sparse.Exchanger{c, copying{c}} {
		w, err := newWire(x, o, batch)
		if err != nil {
			return err
		}
		paths[i] = w
	}
	begin := time.Now()
	for n := 0; ; n++ {
		for i := range paths {
			if err := paths[(n+i)%2].sample(c, n < warm); err != nil {
				return err
			}
		}
		more := []int64{0}
		if n+1 <= warm || time.Since(begin) < 2*o.time {
			more[0] = 1
		}
		if err := collective.Broadcast(c, more, 0); err != nil {
			return err
		}
		if more[0] == 0 {
			break
		}
	}
	if !slices.Equal(paths[0].table, paths[1].table) {
		return errors.New("reading in place and copying gave different rows")
	}
	n := int64(len(paths[0].keys))
	l := line{op: "wire", remote: n, bytes: 8*n + 4*int64(len(paths[0].grads)+len(paths[0].answers))}
	for i, us := range []*float64{&l.us, &l.copying} {
		if err := collective.AllReduce(c, paths[i].samples, collective.Max); err != nil {
			return err
		}
		slices.Sort(paths[i].samples)
		*us = paths[i].samples[len(paths[i].samples)/2]
	}
	if c.Rank() == 0 {
		emit(l)
	}
	return nil
}

// sample times some steps, after a barrier and one step that brings this path's memory back into
// the caches.
func (w *wire) sample(c *collective.Comm, warm bool) error {
	if err := w.step(); err != nil {
		return fmt.Errorf("exchange: %w", err)
	}
	if err := collective.Barrier(c); err != nil {
		return err
	}
	start := time.Now()
	for range wireSteps {
		if err := w.step(); err != nil {
			return fmt.Errorf("exchange: %w", err)
		}
	}
	if !warm {
		w.samples = append(w.samples, us(time.Since(start))/wireSteps)
	}
	return nil
}

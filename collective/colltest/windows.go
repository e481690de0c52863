package colltest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
)

// windows checks calls on memory of collective.Alloc: on all ranks or some of them, at uneven
// offsets, and across channels. If the transport shares no memory, Alloc returns ordinary
// memory.
func windows(t *testing.T, newGroup Make, size int) {
	allWell(t, onRanks(t, newGroup, size, func(c *collective.Comm, tr collective.Transport) error {
		if err := inWindows[float32](c, tr, 1<<17/size+3); err != nil {
			return err
		}
		if err := inWindows[int64](c, tr, 9001); err != nil {
			return err
		}
		if err := inWindows[uint8](c, tr, 20_001); err != nil {
			return err
		}
		return inWindows[float64](c.Channel(1), tr, 5001)
	}))
}

// inWindows checks every call with elements of one type.
func inWindows[T collective.Number](c *collective.Comm, tr collective.Transport, most int) error {
	mem, err := collective.Alloc[T](c, 2*most+1)
	if err != nil {
		return err
	}
	for i, v := range mem {
		if v != 0 {
			return fmt.Errorf("element %d of new memory is %v", i, v)
		}
	}
	_, shares := tr.(collective.Sharer)
	if shares && c.Size() > 1 && !collective.InWindow(c, mem[1:]) {
		return fmt.Errorf("memory of Alloc is in no window")
	}
	places := []int{0}
	if shares {
		places = []int{0, 1, 2, 3} // which ranks use the window: all, none, one, all but one
	}
	for k, n := range []int{1, 100, 5000, most} {
		for _, place := range places {
			rng := rand.New(rand.NewPCG(uint64(k), uint64(place)))
			b := buffer[T]{mem: mem, in: place == 0 || place == 2 && c.Rank() == c.Size()-1 || place == 3 && c.Rank() != 0}
			if err := b.check(c, rng, n); err != nil {
				return fmt.Errorf("buffers in windows, case %d: %w", place, err)
			}
		}
	}
	return nil
}

// buffer allocates memory for the data of a call, either in a window or ordinary.
type buffer[T collective.Number] struct {
	mem []T
	in  bool
}

// of returns a copy of x at an offset that differs between ranks.
func (b buffer[T]) of(c *collective.Comm, x []T, part int) []T {
	at := part*(len(b.mem)/2) + c.Rank()%2
	if !b.in || at+len(x) > len(b.mem) {
		return append([]T(nil), x...)
	}
	y := b.mem[at : at+len(x)]
	copy(y, x)
	return y
}

func (b buffer[T]) check(c *collective.Comm, rng *rand.Rand, n int) error {
	all := drawAll[T](rng, c.Size(), n)
	for _, op := range []collective.Op{collective.Sum, collective.Max} {
		x := b.of(c, all[c.Rank()], 0)
		if err := collective.AllReduce(c, x, op); err != nil {
			return err
		}
		if err := same(c, fmt.Sprintf("AllReduce(%v)", op), x, reduced(all, op)); err != nil {
			return err
		}
	}
	want := reduced(all, collective.Sum)
	x := b.of(c, all[c.Rank()], 0)
	lo, hi, err := collective.ReduceScatter(c, x, collective.Sum)
	if err != nil {
		return err
	}
	if err := same(c, "ReduceScatter", x[lo:hi], want[lo:hi]); err != nil {
		return err
	}
	if err := collective.AllGather(c, x); err != nil {
		return err
	}
	if err := same(c, "AllGather", x, want); err != nil {
		return err
	}
	root := rng.IntN(c.Size())
	x = b.of(c, all[c.Rank()], 1)
	if err := collective.Broadcast(c, x, root); err != nil {
		return err
	}
	if err := same(c, "Broadcast", x, all[root]); err != nil {
		return err
	}
	if err := visitAll(c, rng, n, func(x []T) []T { return b.of(c, x, 0) }); err != nil {
		return err
	}
	return b.checkAllToAllV(c, rng, all)
}

func (b buffer[T]) checkAllToAllV(c *collective.Comm, rng *rand.Rand, all [][]T) error {
	var want []T
	var sendCounts, recvCounts []int
	for from := range all {
		counts, lo := drawCounts(rng, c.Size(), len(all[from])), 0
		if from == c.Rank() {
			sendCounts = counts
		}
		for i := range c.Rank() {
			lo += counts[i]
		}
		want = append(want, all[from][lo:lo+counts[c.Rank()]]...)
		recvCounts = append(recvCounts, counts[c.Rank()])
	}
	send, recv := b.of(c, all[c.Rank()], 0), b.of(c, make([]T, len(want)), 1)
	if err := collective.AllToAllV(c, send, sendCounts, recv, recvCounts); err != nil {
		return err
	}
	return same(c, "AllToAllV", recv, want)
}

package bench

import (
	"fmt"
	"math"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// operation is one operation to measure.
type operation struct {
	name      string
	sized     bool // has a buffer
	busFactor func(np int) float64
	call      collective.Call // for the prediction of the cost
	prepare   func(b *buffers, bytes int) call
}

// call is an operation prepared for one size.
type call struct {
	do        func() error
	sent, got []byte       // rewritten and read by the _use form
	fill      func()       // writes the pattern for the check
	check     func() error // checks the result of one call on the pattern; nil: nothing to check
}

// operations returns all operations. It is a function because packages have no variables.
func operations() []operation {
	part := func(np int) float64 { return float64(np-1) / float64(np) }
	twice := func(np int) float64 { return 2 * part(np) }
	whole := func(int) float64 { return 1 }
	return []operation{
		{"barrier", false, whole, collective.CallBarrier, barrier},
		{"allreduce", true, twice, collective.CallAllReduce, allReduce},
		{"reduce_scatter", true, part, collective.CallReduceScatter, reduceScatter},
		{"all_gather", true, part, collective.CallAllGather, allGather},
		{"alltoall", true, part, collective.CallAllToAll, allToAll},
		{"alltoallv", true, part, collective.CallAllToAllV, allToAllV},
		{"broadcast", true, whole, collective.CallBroadcast, broadcast},
	}
}

func find(name string) (operation, bool) {
	for _, op := range operations() {
		if op.name == name {
			return op, true
		}
	}
	return operation{}, false
}

// buffers is the memory shared by all operations.
type buffers struct {
	c          *collective.Comm
	send, recv []byte
	counts     []int
}

func newBuffers(c *collective.Comm, bytes int) (*buffers, error) {
	b := &buffers{c: c, counts: make([]int, c.Size())}
	if bytes == 0 { // no window either, which all ranks would map
		return b, nil
	}
	words := (bytes + 7) / 8
	for _, p := range []*[]byte{&b.send, &b.recv} {
		w, err := collective.Alloc[uint64](c, words)
		if err != nil {
			return nil, err
		}
		*p = raw.Bytes(w)
	}
	return b, nil
}

// pattern returns the value of rank at element i. Values are small integers, so that
// float32 sums up to 2^15 are exact in any order.
func pattern(rank, i int) float32 { return float32((rank%16 + 1) * (i%7 + 1)) }

// patternSum returns the sum of pattern over np ranks.
func patternSum(np, i int) float32 {
	sum := float32(0)
	for r := range np {
		sum += pattern(r, i)
	}
	return sum
}

// patternByte returns byte i of the part that rank from sends to rank to.
func patternByte(from, to, i int) byte { return byte(from*31 + to*7 + i*3 + 1) }

func fillFloats(x []float32, rank int) {
	for i := range x {
		x[i] = pattern(rank, i)
	}
}

func wrong(i int, got, want any) error {
	return fmt.Errorf("wrong result: element %d is %v, want %v", i, got, want)
}

// checkFloats compares x[lo:hi] with the sum over all ranks. The pattern repeats after 7
// elements.
func checkFloats(x []float32, lo, hi, np int) error {
	var want [7]float32
	for i := range want {
		want[i] = patternSum(np, i)
	}
	for i := lo; i < hi; i++ {
		if math.Float32bits(x[i]) != math.Float32bits(want[i%7]) {
			return wrong(i, x[i], want[i%7])
		}
	}
	return nil
}

func barrier(b *buffers, _ int) call {
	return call{do: func() error { return collective.Barrier(b.c) }}
}

func allReduce(b *buffers, bytes int) call {
	x := raw.Of[float32](b.send[:bytes/4*4])
	return call{
		do:    func() error { return collective.AllReduce(b.c, x, collective.Sum) },
		sent:  b.send[:bytes],
		got:   b.send[:bytes],
		fill:  func() { fillFloats(x, b.c.Rank()) },
		check: func() error { return checkFloats(x, 0, len(x), b.c.Size()) },
	}
}

func reduceScatter(b *buffers, bytes int) call {
	x := raw.Of[float32](b.send[:bytes/4*4])
	lo, hi := collective.Chunk(len(x), b.c.Size(), b.c.Rank())
	return call{
		do: func() error {
			_, _, err := collective.ReduceScatter(b.c, x, collective.Sum)
			return err
		},
		sent:  b.send[:bytes],
		got:   b.send[4*lo : 4*hi],
		fill:  func() { fillFloats(x, b.c.Rank()) },
		check: func() error { return checkFloats(x, lo, hi, b.c.Size()) },
	}
}

func allGather(b *buffers, bytes int) call {
	x := raw.Of[float32](b.send[:bytes/4*4])
	np := b.c.Size()
	lo, hi := collective.Chunk(len(x), np, b.c.Rank())
	return call{
		do:   func() error { return collective.AllGather(b.c, x) },
		sent: b.send[4*lo : 4*hi],
		got:  b.send[:bytes],
		fill: func() {
			clear(x)
			fillFloats(x[lo:hi], b.c.Rank())
		},
		check: func() error {
			for r := range np {
				from, to := collective.Chunk(len(x), np, r)
				for i, v := range x[from:to] {
					if want := pattern(r, i); v != want {
						return wrong(from+i, v, want)
					}
				}
			}
			return nil
		},
	}
}

// fillParts and checkParts handle the pattern of an all-to-all with parts of n bytes.
func (b *buffers) fillParts(n int) {
	for to := range b.c.Size() {
		for i := range n {
			b.send[to*n+i] = patternByte(b.c.Rank(), to, i)
		}
	}
}

func (b *buffers) checkParts(n int) error {
	for from := range b.c.Size() {
		for i, v := range b.recv[from*n : (from+1)*n] {
			if want := patternByte(from, b.c.Rank(), i); v != want {
				return wrong(from*n+i, v, want)
			}
		}
	}
	return nil
}

func allToAll(b *buffers, bytes int) call {
	np := b.c.Size()
	n := bytes / np
	send, recv := b.send[:n*np], b.recv[:n*np]
	return call{
		do:    func() error { return collective.AllToAll(b.c, send, recv) },
		sent:  send,
		got:   recv,
		fill:  func() { b.fillParts(n) },
		check: func() error { return b.checkParts(n) },
	}
}

func allToAllV(b *buffers, bytes int) call {
	np := b.c.Size()
	n := bytes / np
	for i := range b.counts {
		b.counts[i] = n
	}
	send, recv := b.send[:n*np], b.recv[:n*np]
	return call{
		do:    func() error { return collective.AllToAllV(b.c, send, b.counts, recv, b.counts) },
		sent:  send,
		got:   recv,
		fill:  func() { b.fillParts(n) },
		check: func() error { return b.checkParts(n) },
	}
}

func broadcast(b *buffers, bytes int) call {
	x := raw.Of[float32](b.send[:bytes/4*4])
	return call{
		do:   func() error { return collective.Broadcast(b.c, x, 0) },
		sent: b.send[:bytes],
		got:  b.send[:bytes],
		fill: func() { fillFloats(x, b.c.Rank()) },
		check: func() error {
			for i, v := range x {
				if want := pattern(0, i); v != want {
					return wrong(i, v, want)
				}
			}
			return nil
		},
	}
}

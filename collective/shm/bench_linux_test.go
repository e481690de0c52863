package shm

import (
	"context"
	"fmt"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/fatal"
	"github.com/wdlrun/wdlrun/rank"
)

// benchCase is one case of the benchmark: op on n bytes of memory of Alloc or, with plain, of
// ordinary memory.
type benchCase struct {
	op    string
	bytes int
	plain bool
}

func benchCases() (all []benchCase) {
	for _, n := range []int{8, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1_400_000, 16 << 20} {
		all = append(all, benchCase{"allreduce", n, false}, benchCase{"allreduce", n, true},
			benchCase{"alltoall", n, false}, benchCase{"alltoall", n, true})
	}
	return append(all, benchCase{op: "barrier"})
}

// body returns a function that makes one call of the case on this rank.
func (k benchCase) body(c *collective.Comm) func() error {
	n := k.bytes / 4 / c.Size() * c.Size()
	if k.op == "allreduce" {
		n = k.bytes / 4
	}
	x, y := make([]float32, n), make([]float32, n)
	if !k.plain && n > 0 {
		var err error
		if x, err = collective.Alloc[float32](c, n); err != nil {
			return func() error { return err }
		}
	}
	switch k.op {
	case "allreduce":
		return func() error { return collective.AllReduce(c, x, collective.Sum) }
	case "alltoall":
		return func() error { return collective.AllToAll(c, x, y) }
	}
	return func() error { return collective.Barrier(c) }
}

// follow makes the calls of the ranks other than 0: for each case as many as rank 0 announces,
// until it announces none.
func follow(c *collective.Comm) error {
	for {
		order := make([]int64, 2)
		if err := collective.Broadcast(c, order, 0); err != nil || order[0] < 0 {
			return err
		}
		body := benchCases()[order[0]].body(c)
		for {
			if err := collective.Broadcast(c, order, 0); err != nil {
				return err
			}
			if order[1] == 0 {
				break
			}
			for range order[1] {
				if err := body(); err != nil {
					return err
				}
			}
		}
	}
}

// BenchmarkProcesses runs every rank as a separate process; this one is rank 0.
func BenchmarkProcesses(b *testing.B) {
	for _, size := range []int{2, 4, 8} {
		b.Run(fmt.Sprintf("P=%d", size), func(b *testing.B) { benchProcesses(b, size) })
	}
}

func benchProcesses(b *testing.B, size int) {
	key := rank.NewKey()
	for r := 1; r < size; r++ {
		start(b, r, size, key, "bench")
	}
	l, err := Listen(Config{Rank: 0, Size: size, Key: key[:]})
	fatal.If(b, err)
	tr, err := l.Connect(context.Background())
	fatal.If(b, err)
	defer tr.Close()
	c := collective.New(tr)
	for i, k := range benchCases() {
		name := fmt.Sprintf("%s/bytes=%d", k.op, k.bytes)
		if k.plain {
			name += "/plain"
		}
		b.Run(name, func(b *testing.B) { // called several times with growing N
			fatal.If(b, collective.Broadcast(c, []int64{int64(i), 0}, 0))
			body := k.body(c)
			fatal.If(b, collective.Broadcast(c, []int64{0, int64(b.N)}, 0))
			b.ResetTimer()
			for range b.N {
				fatal.If(b, body())
			}
			b.StopTimer()
			collective.Broadcast(c, []int64{0, 0}, 0)
		})
	}
	collective.Broadcast(c, []int64{-1, 0}, 0)
}

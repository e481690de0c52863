package colltest

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// check makes one call with about n elements drawn from rng and compares this rank's result with
// the serial reference. The rng of every rank has the same seed.
type check func(c *collective.Comm, rng *rand.Rand, n int) error

// checks returns a check of every call with every type.
func checks() []check {
	all := append(orderless(), ordered[float32]()...)
	all = append(all, ordered[float64]()...)
	return append(all, ordered[collective.BF16]()...)
}

func typed[T collective.Number]() []check {
	return append(ordered[T](), unordered[T]()...)
}

// ordered returns the checks whose result, for floats, depends on the order of summation.
func ordered[T collective.Number]() []check {
	return []check{checkReduceScatter[T], reducing[T](collective.Sum)}
}

// unordered returns the other checks.
func unordered[T collective.Number]() []check {
	return []check{
		checkAllGather[T], checkAllGatherV[T], checkAllToAll[T], checkAllToAllV[T], checkAllToAllVisit[T],
		checkBroadcast[T], checkGather[T], reducing[T](collective.Min), reducing[T](collective.Max),
	}
}

func reducing[T collective.Number](op collective.Op) check {
	return func(c *collective.Comm, rng *rand.Rand, n int) error { return checkAllReduce[T](c, rng, n, op) }
}

// orderless returns the checks for groups that do not sum in the order of ranks. It omits sums
// of floats, whose bits depend on that order.
func orderless() []check {
	all := []check{checkAllGatherBytes, checkGatherBytes, checkBroadcastBytes, checkExactSum[float32], checkExactSum[float64]}
	all = append(all, typed[uint8]()...)
	all = append(all, typed[uint16]()...)
	all = append(all, typed[int32]()...)
	all = append(all, typed[uint32]()...)
	all = append(all, typed[int64]()...)
	all = append(all, typed[uint64]()...)
	all = append(all, unordered[float32]()...)
	all = append(all, unordered[float64]()...)
	return append(all, unordered[collective.BF16]()...)
}

// draw returns n numbers: any integer, or normally distributed floats.
func draw[T collective.Number](rng *rand.Rand, n int) []T {
	half := 0.5
	x := make([]T, n)
	for i := range x {
		if bf, ok := any(&x[i]).(*collective.BF16); ok {
			*bf = collective.ToBF16(float32(rng.NormFloat64()))
		} else if T(half) != 0 {
			x[i] = T(rng.NormFloat64())
		} else {
			x[i] = T(rng.Uint64())
		}
	}
	return x
}

// drawAll returns n numbers for each rank.
func drawAll[T collective.Number](rng *rand.Rand, size, n int) [][]T {
	all := make([][]T, size)
	for i := range all {
		all[i] = draw[T](rng, n)
	}
	return all
}

// reduced returns the reduction in the documented order.
func reduced[T collective.Number](all [][]T, op collective.Op) []T {
	size, n := len(all), len(all[0])
	out := make([]T, n)
	for owner := range size {
		lo, hi := collective.Chunk(n, size, owner)
		for i := lo; i < hi; i++ {
			v := all[(owner+1)%size][i]
			for k := 2; k <= size; k++ {
				v = join(op, v, all[(owner+k)%size][i])
			}
			out[i] = v
		}
	}
	return out
}

func join[T collective.Number](op collective.Op, a, b T) T {
	if x, ok := any(a).(collective.BF16); ok {
		return T(collective.ToBF16(join(op, x.Float32(), collective.BF16(b).Float32())))
	}
	switch op {
	case collective.Min:
		return min(a, b)
	case collective.Max:
		return max(a, b)
	}
	return a + b
}

// same compares the bits of a result with the bits of the reference.
func same[T collective.Number](c *collective.Comm, what string, got, want []T) error {
	if bytes.Equal(raw.Bytes(got), raw.Bytes(want)) {
		return nil
	}
	for i := range min(len(got), len(want)) {
		if !bytes.Equal(raw.Bytes(got[i:i+1]), raw.Bytes(want[i:i+1])) {
			return fmt.Errorf("%s of %d %T on rank %d of %d: element %d is %v, want %v", what, len(want), want[i], c.Rank(), c.Size(), i, got[i], want[i])
		}
	}
	return fmt.Errorf("%s on rank %d of %d: %d elements, want %d", what, c.Rank(), c.Size(), len(got), len(want))
}

func checkAllReduce[T collective.Number](c *collective.Comm, rng *rand.Rand, n int, op collective.Op) error {
	all := drawAll[T](rng, c.Size(), n)
	want := reduced(all, op)
	x := all[c.Rank()]
	if err := collective.AllReduce(c, x, op); err != nil {
		return err
	}
	return same(c, fmt.Sprintf("AllReduce(%v)", op), x, want)
}

// checkExactSum sums numbers of very different magnitude, many of which cancel.
func checkExactSum[T float32 | float64](c *collective.Comm, rng *rand.Rand, n int) error {
	n = min(n, 100) // the reference is slow
	all, want := make([][]T, c.Size()), make([]T, n)
	for r := range all {
		all[r] = make([]T, n)
		for i := range n {
			all[r][i] = T(math.Ldexp(rng.NormFloat64(), rng.IntN(120)-60))
			if r > 0 && rng.IntN(3) == 0 {
				all[r][i] = -all[r-1][i]
			}
		}
	}
	for i := range n {
		sum := new(big.Float).SetPrec(1000)
		for _, x := range all {
			sum.Add(sum, new(big.Float).SetFloat64(float64(x[i])))
		}
		if v, ok := any(&want[i]).(*float32); ok {
			*v, _ = sum.Float32()
		} else {
			v, _ := sum.Float64()
			want[i] = T(v)
		}
	}
	x := all[c.Rank()]
	if err := collective.AllReduce(c, x, collective.ExactSum); err != nil {
		return err
	}
	return same(c, "AllReduce(exact sum)", x, want)
}

func checkReduceScatter[T collective.Number](c *collective.Comm, rng *rand.Rand, n int) error {
	all := drawAll[T](rng, c.Size(), n)
	want := reduced(all, collective.Sum)
	x := all[c.Rank()]
	lo, hi, err := collective.ReduceScatter(c, x, collective.Sum)
	if err != nil {
		return err
	}
	if l, h := collective.Chunk(n, c.Size(), c.Rank()); lo != l || hi != h {
		return fmt.Errorf("ReduceScatter of %d on rank %d of %d: chunk %d:%d, want %d:%d", n, c.Rank(), c.Size(), lo, hi, l, h)
	}
	return same(c, "ReduceScatter", x[lo:hi], want[lo:hi])
}

func checkAllGather[T collective.Number](c *collective.Comm, rng *rand.Rand, n int) error {
	want := draw[T](rng, n)
	x := make([]T, n)
	lo, hi := collective.Chunk(n, c.Size(), c.Rank())
	copy(x[lo:hi], want[lo:hi])
	if err := collective.AllGather(c, x); err != nil {
		return err
	}
	return same(c, "AllGather", x, want)
}

func checkAllGatherV[T collective.Number](c *collective.Comm, rng *rand.Rand, n int) error {
	counts := drawCounts(rng, c.Size(), n)
	want := draw[T](rng, n)
	x, lo := make([]T, n), 0
	for i := range c.Rank() {
		lo += counts[i]
	}
	hi := lo + counts[c.Rank()]
	copy(x[lo:hi], want[lo:hi])
	if err := collective.AllGatherV(c, x, counts); err != nil {
		return err
	}
	return same(c, "AllGatherV", x, want)
}

// drawCounts divides n into size parts, some of them empty.
func drawCounts(rng *rand.Rand, size, n int) []int {
	counts := make([]int, size)
	for i := range counts {
		counts[i] = rng.IntN(n + 1)
		if rng.IntN(3) == 0 {
			counts[i] = 0
		}
		n -= counts[i]
	}
	counts[rng.IntN(size)] += n
	return counts
}

func checkAllToAll[T collective.Number](c *collective.Comm, rng *rand.Rand, n int) error {
	part := n / c.Size()
	all := drawAll[T](rng, c.Size(), part*c.Size())
	recv := make([]T, part*c.Size())
	var want []T
	for _, from := range all {
		want = append(want, from[c.Rank()*part:(c.Rank()+1)*part]...)
	}
	if err := collective.AllToAll(c, all[c.Rank()], recv); err != nil {
		return err
	}
	return same(c, "AllToAll", recv, want)
}

func checkAllToAllV[T collective.Number](c *collective.Comm, rng *rand.Rand, n int) error {
	all := drawAll[T](rng, c.Size(), n)
	var want []T
	var sendCounts, recvCounts []int
	for from := range all {
		counts := drawCounts(rng, c.Size(), n)
		if from == c.Rank() {
			sendCounts = counts
		}
		lo := 0
		for i := range c.Rank() {
			lo += counts[i]
		}
		want = append(want, all[from][lo:lo+counts[c.Rank()]]...)
		recvCounts = append(recvCounts, counts[c.Rank()])
	}
	recv := make([]T, len(want))
	if err := collective.AllToAllV(c, all[c.Rank()], sendCounts, recv, recvCounts); err != nil {
		return err
	}
	return same(c, "AllToAllV", recv, want)
}

func checkAllToAllVisit[T collective.Number](c *collective.Comm, rng *rand.Rand, n int) error {
	return visitAll(c, rng, n, func(x []T) []T { return x })
}

// visitAll checks AllToAllVisit with a send buffer that place allocated.
func visitAll[T collective.Number](c *collective.Comm, rng *rand.Rand, n int, place func([]T) []T) error {
	all := drawAll[T](rng, c.Size(), n)
	var sendCounts, recvCounts []int
	var want [][]T
	for from := range all {
		counts, lo := drawCounts(rng, c.Size(), n), 0
		if from == c.Rank() {
			sendCounts = counts
		}
		for i := range c.Rank() {
			lo += counts[i]
		}
		want = append(want, all[from][lo:lo+counts[c.Rank()]])
		recvCounts = append(recvCounts, counts[c.Rank()])
	}
	send, next, stop := place(all[c.Rank()]), 0, fmt.Errorf("enough")
	err := collective.AllToAllVisit(c, send, sendCounts, recvCounts, func(from int, part []T) error {
		if from != next {
			return fmt.Errorf("AllToAllVisit on rank %d: part of rank %d, want the part of rank %d", c.Rank(), from, next)
		}
		if next++; next == c.Size() && c.Rank() == 0 {
			return stop // the group must remain usable
		}
		return same(c, "AllToAllVisit", part, want[from])
	})
	if err == stop {
		err = nil
	}
	return err
}

func checkBroadcast[T collective.Number](c *collective.Comm, rng *rand.Rand, n int) error {
	root := rng.IntN(c.Size())
	want := draw[T](rng, n)
	x := make([]T, n)
	if c.Rank() == root {
		copy(x, want)
	}
	if err := collective.Broadcast(c, x, root); err != nil {
		return err
	}
	return same(c, "Broadcast", x, want)
}

func checkGather[T collective.Number](c *collective.Comm, rng *rand.Rand, n int) error {
	root := rng.IntN(c.Size())
	all := drawAll[T](rng, c.Size(), n/c.Size())
	var want, recv []T
	if c.Rank() == root {
		for _, x := range all {
			want = append(want, x...)
		}
		recv = make([]T, len(want))
	}
	if err := collective.Gather(c, all[c.Rank()], recv, root); err != nil {
		return err
	}
	return same(c, "Gather", recv, want)
}

// drawStrings returns a byte string of at most n bytes for every rank.
func drawStrings(rng *rand.Rand, size, n int) [][]byte {
	all := make([][]byte, size)
	for i := range all {
		all[i] = draw[uint8](rng, rng.IntN(n+1)*rng.IntN(2))
	}
	return all
}

func sameStrings(c *collective.Comm, what string, got, want [][]byte) error {
	if len(got) != len(want) {
		return fmt.Errorf("%s on rank %d of %d: %d strings, want %d", what, c.Rank(), c.Size(), len(got), len(want))
	}
	for i := range want {
		if err := same(c, fmt.Sprintf("%s, part %d,", what, i), got[i], want[i]); err != nil {
			return err
		}
	}
	return nil
}

func checkAllGatherBytes(c *collective.Comm, rng *rand.Rand, n int) error {
	all := drawStrings(rng, c.Size(), n)
	got, err := collective.AllGatherBytes(c, all[c.Rank()], n)
	if err != nil {
		return err
	}
	return sameStrings(c, "AllGatherBytes", got, all)
}

func checkGatherBytes(c *collective.Comm, rng *rand.Rand, n int) error {
	all, root := drawStrings(rng, c.Size(), n), rng.IntN(c.Size())
	got, err := collective.GatherBytes(c, all[c.Rank()], root, n)
	if err != nil {
		return err
	}
	if c.Rank() != root {
		all = nil
	}
	return sameStrings(c, "GatherBytes", got, all)
}

func checkBroadcastBytes(c *collective.Comm, rng *rand.Rand, n int) error {
	all, root := drawStrings(rng, c.Size(), n), rng.IntN(c.Size())
	got, err := collective.BroadcastBytes(c, all[c.Rank()], root, n)
	if err != nil {
		return err
	}
	return same(c, "BroadcastBytes", got, all[root])
}

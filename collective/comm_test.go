package collective_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// untouched is a transport of a world of one rank. It must not be used.
type untouched struct{ collective.Transport }

func (untouched) World() (rank, size, channels int) { return 0, 1, 1 }

// TestOneRankNeedsNoTransport: calls in a group of one rank do not use the transport.
func TestOneRankNeedsNoTransport(t *testing.T) {
	c := collective.New(untouched{})
	x, y := []float64{1, 2, 3}, make([]float64, 3)
	lo, hi, err := collective.ReduceScatter(c, x, collective.Sum)
	if err != nil || lo != 0 || hi != 3 {
		t.Errorf("ReduceScatter = %d, %d, %v", lo, hi, err)
	}
	if err := errors.Join(
		collective.AllReduce(c, x, collective.Max), collective.AllGather(c, x), collective.AllToAll(c, x, y),
		collective.Broadcast(c, x, 0), collective.Barrier(c),
	); err != nil {
		t.Error(err)
	}
	if y[2] != 3 {
		t.Errorf("AllToAll of one rank: %v", y)
	}
	if b, err := collective.AllGatherBytes(c, []byte("ab"), 2); err != nil || len(b) != 1 || string(b[0]) != "ab" {
		t.Errorf("AllGatherBytes = %q, %v", b, err)
	}
}

// ranksOnMem runs body on every rank of a group in memory and returns the errors by rank.
func ranksOnMem(size int, body func(c *collective.Comm) error) []error {
	errs := make([]error, size)
	var wg sync.WaitGroup
	for r, tr := range mem.New(size, 2) {
		wg.Go(func() { errs[r] = body(collective.New(tr)) })
	}
	wg.Wait()
	return errs
}

// onMem is like ranksOnMem and fails the test on an error.
func onMem(t *testing.T, size int, body func(c *collective.Comm) error) {
	t.Helper()
	for _, err := range ranksOnMem(size, body) {
		if err != nil {
			t.Error(err)
		}
	}
}

type weight float32 // a named type also satisfies Number

// TestSumsAreOrderedAndNaNsSeen: sums have the documented order, and a maximum with a NaN is a
// NaN.
func TestSumsAreOrderedAndNaNsSeen(t *testing.T) {
	const size = 3
	onMem(t, size, func(c *collective.Comm) error {
		// In chunk i the sum is (x[i+1] + x[i+2]) + x[i]. big and −big are added first only if
		// rank i has the small number.
		x := [][]weight{{1, 1, 1}, {1e8, 1e8, 1e8}, {-1e8, -1e8, -1e8}}[c.Rank()]
		if err := collective.AllReduce(c, x, collective.Sum); err != nil {
			return err
		}
		if x[0] != 1 || x[1] != 0 || x[2] != 0 {
			t.Errorf("rank %d: %v, want [1 0 0]", c.Rank(), x)
		}
		y := []float64{0, float64(c.Rank())}
		if c.Rank() == 1 {
			y[0] = math.NaN()
		}
		if err := collective.AllReduce(c, y, collective.Max); err != nil {
			return err
		}
		if !math.IsNaN(y[0]) || y[1] != size-1 {
			t.Errorf("rank %d: max is %v, want [NaN 2]", c.Rank(), y)
		}
		return nil
	})
}

// TestSteadyStateAllocatesNothing: after the first calls, a call allocates no memory.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	const size, runs = 4, 50
	fatal.If(t, mem.Run(size, 1, func(c *collective.Comm) (err error) {
		x, y := make([]float32, 1001), make([]float32, 1001)
		counts := []int{300, 0, 700, 1}
		keys, got := make([]int64, 4*size), make([]int64, 4*size)
		send, recv := make([]uint8, 10*size), make([]uint8, 10*size)
		ten := []int{10, 10, 10, 10}
		step := func() {
			_, _, e := collective.ReduceScatter(c, y, collective.Min)
			err = errors.Join(err, e,
				collective.AllReduce(c, x, collective.Sum), collective.AllGather(c, x), collective.AllGatherV(c, x, counts),
				collective.AllToAll(c, keys, got), collective.AllToAllV(c, send, ten, recv, ten),
				collective.Broadcast(c, x, 2), collective.Barrier(c))
		}
		if c.Rank() > 0 {
			for range runs + 1 { // AllocsPerRun makes one extra call to warm up
				step()
			}
			return err
		}
		if n := testing.AllocsPerRun(runs, step); n >= 1 {
			t.Errorf("%v allocations in 8 calls, want none", n)
		}
		return err
	}))
}

// TestMemWorksInABubble: the transport works in virtual time, in which a day passes at once.
func TestMemWorksInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		onMem(t, 3, func(c *collective.Comm) error {
			if c.Rank() == 2 {
				time.Sleep(24 * time.Hour)
			}
			return collective.Barrier(c)
		})
		if d := time.Since(begin); d != 24*time.Hour {
			t.Errorf("the barrier took %v", d)
		}
	})
}

// TestWrongProgramsPanic: calls that only a wrong program makes panic with a message that names
// the fault, and the group remains usable.
func TestWrongProgramsPanic(t *testing.T) {
	c := collective.New(untouched{})
	for want, call := range map[string]func(){
		"AllToAll: 2 elements":       func() { collective.AllToAll(c, []int32{1, 2}, []int32{1}) },
		"AllGatherV: 2 counts":       func() { collective.AllGatherV(c, []int32{1, 2}, []int{1, 1}) },
		"AllGatherV: count 3":        func() { collective.AllGatherV(c, []int32{1, 2}, []int{3}) },
		"AllGatherV: count -1":       func() { collective.AllGatherV(c, []int32{1, 2}, []int{-1}) },
		"AllGatherV: counts add up":  func() { collective.AllGatherV(c, []int32{1, 2}, []int{1}) },
		"Broadcast: root 1":          func() { collective.Broadcast(c, []int32{1, 2}, 1) },
		"AllReduce: operation 9":     func() { collective.AllReduce(c, []int32{1, 2}, 9) },
		"AllGatherBytes: limit -1":   func() { collective.AllGatherBytes(c, nil, -1) },
		"Channel: 1 of 1":            func() { c.Channel(1) },
		"Chunk: no such chunk":       func() { collective.Chunk(1, 1, 1) },
		"New: rank 0 of 0 with 0 ch": func() { collective.New(empty{}) },
	} {
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.HasPrefix(got, "collective: "+want) {
					t.Errorf("panic %q, want %q", got, want)
				}
			}()
			call()
		}()
	}
	if err := c.Err(); err != nil {
		t.Errorf("a recovered panic has ended the group: %v", err)
	}
}

type empty struct{ collective.Transport }

func (empty) World() (rank, size, channels int) { return 0, 0, 0 }

// TestChannelIsOneComm: Channel returns the same Comm each time, and Abort ends the calls on all
// channels.
func TestChannelIsOneComm(t *testing.T) {
	c := collective.New(mem.New(1, 2)[0])
	if c.Channel(0) != c || c.Channel(1) != c.Channel(1).Channel(1) || c.Channel(1) == c {
		t.Error("Channel returns a new Comm")
	}
	c.Abort(errors.New("enough"))
	if err := collective.Barrier(c.Channel(1)); err == nil || !strings.Contains(err.Error(), "rank 0 aborted: enough") {
		t.Errorf("a call on another channel after Abort: %v", err)
	}
}

// TestWatchNumbersAlike: every rank gives the calls that need all ranks the same numbers and
// reports no other calls.
func TestWatchNumbersAlike(t *testing.T) {
	const size = 3
	var told [size][]uint64
	err := mem.Run(size, 1, func(c *collective.Comm) error {
		c.Watch(func(seq uint64) { told[c.Rank()] = append(told[c.Rank()], seq) })
		x := make([]int64, size)
		if err := collective.AllReduce(c, x, collective.Sum); err != nil {
			return err
		}
		if err := collective.Broadcast(c, x, 1); err != nil {
			return err
		}
		if err := collective.AllToAll(c, x, make([]int64, size)); err != nil {
			return err
		}
		c.Watch(nil)
		return collective.Barrier(c)
	})
	fatal.If(t, err)
	for r := range told {
		if !slices.Equal(told[r], []uint64{1, 3}) {
			t.Errorf("rank %d reports calls %v, want 1 and 3", r, told[r])
		}
	}
}

package data

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/golden"
)

func TestLanesPartTheRows(t *testing.T) {
	for lanes := 1; lanes <= 33; lanes++ {
		for n := range int64(100) {
			o := newOrder([]int32{int32(n)}, 1, 0, lanes, 0, true)
			sum := int64(0)
			for s := range int64(lanes) {
				if o.start(s) != sum {
					t.Fatalf("lane %d of %d begins at %d of %d, want %d", s, lanes, o.start(s), n, sum)
				}
				sum += o.taken(s, n)
			}
			if sum != n {
				t.Fatalf("%d lanes hold %d of %d records", lanes, sum, n)
			}
		}
	}
}

// windows of each lane follow each other and hold all of its records.
func TestWindowsPartTheLanes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lanes := rapid.IntRange(1, 20).Draw(t, "lanes")
		n := rapid.Int32Range(0, 500).Draw(t, "n")
		o := newOrder([]int32{n}, 1, 0, lanes, rapid.IntRange(1, 200).Draw(t, "window"), true)
		for s := range int64(lanes) {
			for i := range o.taken(s, int64(n)) {
				if lo, hi := o.bounds(s, o.windowOf(s, i)); i < lo || i >= hi || hi-lo > o.window {
					t.Fatalf("record %d of lane %d lies in window %d to %d", i, s, lo, hi)
				}
			}
		}
	})
}

// take returns the records that rank r of p takes between x and y, as their
// places in the sequence of blocks.
func (o *order) take(r, p int, x, y int64) (rows []int64) {
	for l := range lanesOf(int(o.lanes), r, p) {
		s := int64(r + l*p)
		for i := o.taken(s, x); i < o.taken(s, y); i++ {
			k := o.windowOf(s, i)
			first, end := o.bounds(s, k)
			perm := make([]int32, end-first)
			for i := range perm {
				perm[i] = int32(i)
			}
			permute(o, s, k, perm)
			at, row := o.seek(o.start(s) + first + int64(perm[i-first]))
			rows = append(rows, o.base[at]+row)
		}
	}
	return rows
}

// Whatever the ranks, batches and interruptions, an epoch takes every record
// once, a step takes the same records for any P, and ranks share them evenly.
func TestEpochTakesEveryRecordOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.Int32Range(0, 30), 1, 12).Draw(t, "rows per block")
		lanes := rapid.IntRange(1, 20).Draw(t, "lanes")
		window := rapid.IntRange(0, 60).Draw(t, "window")
		shuffled := rapid.Bool().Draw(t, "shuffle")
		seed, epoch := rapid.Uint64().Draw(t, "seed"), rapid.Uint64Range(0, 9).Draw(t, "epoch")
		o := newOrder(rows, seed, epoch, lanes, window, shuffled)
		seen := make([]int, o.rows())
		for x := int64(0); x < o.rows(); {
			if rapid.Bool().Draw(t, "resume") { // nothing but x is carried over
				o = newOrder(rows, seed, epoch, lanes, window, shuffled)
			}
			p := rapid.IntRange(1, 25).Draw(t, "ranks")
			y := min(x+rapid.Int64Range(1, 70).Draw(t, "batch"), o.rows())
			var step []int64
			least, most := int(y-x), 0
			for r := range p {
				own := o.take(r, p, x, y)
				least, most = min(least, len(own)), max(most, len(own))
				step = append(step, own...)
			}
			one := o.take(0, 1, x, y)
			slices.Sort(step)
			slices.Sort(one)
			if int64(len(step)) != y-x || !slices.Equal(step, one) {
				t.Fatalf("step %d to %d on %d ranks takes %v, on one %v", x, y, p, step, one)
			}
			if wraps := int(y-x)/lanes + 1; most-least > 1+wraps {
				t.Fatalf("step %d to %d of %d lanes: the %d ranks have %d to %d records", x, y, lanes, p, least, most)
			}
			for _, row := range step {
				seen[row]++
			}
			x = y
		}
		if i := slices.IndexFunc(seen, func(n int) bool { return n != 1 }); i >= 0 {
			t.Fatalf("record %d is taken %d times", i, seen[i])
		}
	})
}

func TestOrderDependsOnSeedAndEpoch(t *testing.T) {
	rows := []int32{50, 50, 50}
	a := newOrder(rows, 1, 0, 4, 0, true).take(0, 1, 0, 150)
	for _, o := range []*order{newOrder(rows, 2, 0, 4, 0, true), newOrder(rows, 1, 1, 4, 0, true)} {
		if slices.Equal(o.take(0, 1, 0, 150), a) {
			t.Error("another seed or epoch gives the same order")
		}
	}
	plain := newOrder(rows, 1, 0, 1, 0, false).take(0, 1, 0, 150)
	if !slices.IsSorted(plain) {
		t.Errorf("without shuffling, one lane gives %v", plain)
	}
}

// The order is part of what a checkpoint means: it must never change.
func TestOrderIsFixed(t *testing.T) {
	o := newOrder([]int32{7, 0, 5, 9, 3}, 42, 3, 4, 16, true)
	golden.Check(t, "order.txt", fmt.Sprintln(o.perm, o.take(0, 1, 0, 24)))
}

func TestDefaultLanes(t *testing.T) {
	for ranks, want := range map[int]int{0: 256, 1: 256, 3: 256, 256: 256, 257: 257, 1000: 1000} {
		if got := DefaultLanes(ranks); got != want {
			t.Errorf("%d ranks: %d lanes, want %d", ranks, got, want)
		}
	}
}

func TestSteps(t *testing.T) {
	if Steps(0, 5) != 0 || Steps(10, 5) != 2 || Steps(11, 5) != 3 || Steps(3, 0) != 3 {
		t.Error("wrong number of steps")
	}
}

func TestHoldOutShare(t *testing.T) {
	h := holdOut{seed: 7, limit: 1 << 62}
	n := 0
	for b := range 10 {
		for r := range int32(10000) {
			if h.holds(b, r) {
				n++
			}
		}
	}
	if n < 24500 || n > 25500 {
		t.Errorf("%d of 100000 are held out, want about a quarter", n)
	}
}

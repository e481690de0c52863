package step

import (
	"math"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

func TestFloorIsTheLongestOfAll(t *testing.T) {
	m := Machine{PeakFLOPS: 100, Bandwidth: 10, Lines: 5, CacheBandwidth: 50}
	for _, x := range []struct {
		c       Cost
		threads int
		seconds float64
		bound   string
	}{
		{Cost{}, 1, 0, ""},
		{Cost{FLOP: 200, Memory: 10, Cache: 10}, 1, 2, "multiply-adds"},
		{Cost{FLOP: 200, Memory: 40, Cache: 10}, 1, 4, "memory"},
		{Cost{FLOP: 200, Memory: 10, Cache: 400}, 2, 4, "cache"},
		{Cost{FLOP: 200, Memory: 10, Lines: 15}, 1, 3, "lines"},
	} {
		if s, b := m.Floor(x.c, x.threads); s != x.seconds || b != x.bound {
			t.Errorf("%+v on %d threads: %v, %q; want %v, %q", x.c, x.threads, s, b, x.seconds, x.bound)
		}
	}
	m.PeakBF16FLOPS = 1000
	if s, b := m.Floor(Cost{FLOP: 200, Memory: 1}, 1); s != 0.2 || b != "multiply-adds" {
		t.Errorf("in bfloat16: %v, %q", s, b)
	}
	if s, b := (Machine{Bandwidth: 10}).Floor(Cost{FLOP: 200, Memory: 1}, 1); s != 0.1 || b != "memory" {
		t.Errorf("where multiply-adds have no peak: %v, %q", s, b)
	}
}

// TestCosts adds up by hand what two ranks' step on a small network must move.
func TestCosts(t *testing.T) {
	s := shapes{
		rows: 10, keys: 30, unique: 20, updated: 12, value: 4, width: 9, hidden: 7,
		parameters: 100, flop: 600, ranks: 2, element: 2,
	}
	want := [...]Cost{
		{Memory: 8*30 + 20*(64+64), Lines: 20 * 2, Cache: 20*8 + 20*16 + 30*4},
		{Cache: 30*4 + 30*16 + 4*90},
		{FLOP: 200, Cache: 4*90 + 2*(2*70) + 2*100 + 4*100},
		{FLOP: 400, Cache: 4*90 + 2*90 + 2*(4*70) + 2*100 + 8*100},
		{Cache: 4*90 + 30*4 + 30*32},
		{Cache: 400},
		{Cache: 20 * 16},
		{Cache: 2 * 400},
		{Memory: 2 * 64 * 12, Lines: 12, Cache: 20*16 + 20*100},
	}
	for i, c := range s.costs() {
		if c != want[i] {
			t.Errorf("%s: %+v, want %+v", partNames[i], c, want[i])
		}
	}
}

// TestRoofline checks that every part of a measured step has its costs, and that the table
// shows them.
func TestRoofline(t *testing.T) {
	o := Options{Workload: "w1", Batch: 64, Steps: 4, Batches: 2, BF16: f32.NoBF16() == nil}
	r := onRanks(t, 1, o)
	var flop int64
	var floors float64
	for _, p := range r.Parts {
		flop, floors = flop+p.FLOP, floors+p.FloorMS
		if free := p.Name == "push" || p.Name == "sync"; (p.Bound == "") != free {
			t.Errorf("on one rank %s is bound by %q", p.Name, p.Bound)
		}
	}
	if flop != r.FLOP || math.Abs(floors-r.FloorMS) > 1e-9 || r.FloorMS <= 0 {
		t.Errorf("parts have %d operations and floors of %v ms, the step %d and %v", flop, floors, r.FLOP, r.FloorMS)
	}
	if (r.Machine.PeakBF16FLOPS > 0) != o.BF16 {
		t.Errorf("bfloat16 is %v and goes at %v", o.BF16, r.Machine.PeakBF16FLOPS)
	}
	for _, want := range []string{"second-level cache", "furthest        " + r.furthest().Name, "of the floors of its parts"} {
		if text := r.String(); !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(patient.Settled(m)) }

// onRanks runs body as every rank over transports made from mem's by wrap, and
// returns the errors by rank.
func onRanks(size int, wrap func(collective.Transport) collective.Transport, body func(c *collective.Comm) error) []error {
	errs := make([]error, size)
	var wg sync.WaitGroup
	for i, tr := range mem.New(size, 1) {
		wg.Go(func() {
			defer tr.Close()
			c := collective.New(wrap(tr))
			if errs[i] = body(c); errs[i] != nil {
				c.Abort(errs[i])
			}
		})
	}
	wg.Wait()
	return errs
}

func plain(t collective.Transport) collective.Transport { return t }

// quick measures everything in next to no time.
var quick = Options{
	Ops: Ops(), Sizes: []int{4, 9, 1000, 100_003},
	Time: 100 * time.Microsecond, Batch: 10 * time.Microsecond, Transport: "mem",
}

func TestEveryOperationAndForm(t *testing.T) {
	for _, np := range []int{1, 2, 3} {
		seen := map[string]int{}
		o := quick
		errs := onRanks(np, plain, func(c *collective.Comm) error {
			return Run(c, o, func(l Line) {
				if c.Rank() != 0 {
					t.Errorf("rank %d emits", c.Rank())
				}
				seen[l.Op]++
				if l.Lib != "wdlrun" || l.Transport != "mem" || l.NP != np || !(l.MedianUS > 0) || l.AlgBW < 0 || l.BusBW < 0 {
					t.Errorf("implausible: %+v", l)
				}
			})
		})
		for r, err := range errs {
			if err != nil {
				t.Errorf("np %d: rank %d: %v", np, r, err)
			}
		}
		for _, op := range Ops() {
			want, use := len(o.Sizes), len(o.Sizes)
			if op == "barrier" {
				want, use = 1, 0
			}
			if seen[op] != want || seen[op+"_use"] != use {
				t.Errorf("np %d: %s: %d lines and %d of _use, want %d and %d", np, op, seen[op], seen[op+"_use"], want, use)
			}
		}
	}
}

// Operations without buffers need no windows, which every rank would map, and no costs.
func TestBarrierAloneMeasuresNoCosts(t *testing.T) {
	for _, ops := range [][]string{{"barrier"}, {"barrier", "allreduce"}} {
		o := quick
		o.Ops = ops
		errs := onRanks(2, plain, func(c *collective.Comm) error {
			return Run(c, o, func(l Line) {
				if alone := len(ops) == 1; (l.PredictedUS == 0) != alone || (c.Costs() == collective.DefaultCosts()) != alone {
					t.Errorf("%v: prediction %v, costs %+v", ops, l.PredictedUS, c.Costs())
				}
			})
		})
		fatal.If(t, errors.Join(errs...))
	}
}

// corrupter changes one bit of every large message.
type corrupter struct{ collective.Transport }

func (x corrupter) Exchange(tag collective.Tag, to int, send []byte, from int, recv []byte) error {
	err := x.Transport.Exchange(tag, to, send, from, recv)
	if n := tag.Count; len(recv) > 0 && (n > 200 || tag.Call == collective.CallAllToAllV && len(recv) > 200) {
		recv[len(recv)/2|3] ^= 0x40 // in a float, its exponent
	}
	return err
}

func TestWrongResultsAreNotTimed(t *testing.T) {
	corrupt := func(t collective.Transport) collective.Transport { return corrupter{t} }
	for _, op := range Ops() {
		if op == "barrier" {
			continue
		}
		o := quick
		o.Ops, o.Sizes = []string{op}, []int{1200}
		errs := onRanks(2, corrupt, func(c *collective.Comm) error {
			b, err := newBuffers(c, 1200)
			if err != nil {
				return err
			}
			found, _ := find(op)
			l := &loop{c: c, time: o.Time, batch: o.Batch}
			return runOne(l, b, o, found, 1200, func(l Line) { t.Errorf("timed: %+v", l) })
		})
		if err := fmt.Sprint(errs); !strings.Contains(err, "wrong result: element") {
			t.Errorf("%s: %v", op, err)
		}
	}
}

func TestOptionsReportAllFaults(t *testing.T) {
	err := Options{Ops: []string{"alltoal"}, Sizes: []int{0}, Time: -1, Batch: 2 * time.Hour}.Validate()
	for _, want := range []string{`no operation "alltoal"; there are barrier, allreduce`, "size 0", "time -1ns", "batch 2h"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q in it", err, want)
		}
	}
	if err := (Options{}).Validate(); err != nil {
		t.Error(err)
	}
	errs := onRanks(1, plain, func(c *collective.Comm) error { return Run(c, Options{Sizes: []int{1}}, nil) })
	if errs[0] == nil {
		t.Error("bad options measured")
	}
}

// Other programs read these keys and units.
func TestLines(t *testing.T) {
	l := newLine("tcp", "allreduce_use", 4, 1_000_000, 250e-6, 1.5)
	l.Algorithm, l.PredictedUS = "ring", 240
	b, err := json.Marshal(l)
	fatal.If(t, err)
	golden.Check(t, "line.txt", string(b)+"\n"+Header+"\n"+l.String()+"\n"+newLine("shm", "barrier", 2, 0, 3e-7, 1).String()+"\n")
}

// Turns produce the lines that they name, in their order. Every rank rejects an invalid
// turn.
func TestTurns(t *testing.T) {
	turns := func(texts ...string) string {
		for i, s := range texts {
			texts[i] = fmt.Sprintf("%-*s", TurnBytes, s)
		}
		return strings.Join(texts, "")
	}
	run := func(text string) (seen []string, errs []error) {
		errs = onRanks(2, plain, func(c *collective.Comm) error {
			o := quick
			o.Turns = strings.NewReader(text)
			return Run(c, o, func(l Line) { seen = append(seen, fmt.Sprint(l.Op, " ", l.Bytes)) })
		})
		return seen, errs
	}
	want := []string{"allreduce_use 1000", "barrier 0", "alltoallv 64", "allreduce_use 1000"}
	text := turns(slices.Clone(want)...)
	for _, text := range []string{text, text + turns("end", "what follows is not read")} {
		seen, errs := run(text)
		if fmt.Sprint(seen) != fmt.Sprint(want) || errs[0] != nil || errs[1] != nil {
			t.Errorf("measured %v, want %v; %v", seen, want, errs)
		}
	}
	for _, bad := range []string{turns("allreduc 8"), turns("allreduce"), turns("barrier_use 0"), turns("allreduce 200000"), "allreduce 8"} {
		seen, errs := run(bad)
		if len(seen) > 0 || errs[0] == nil || errs[1] == nil || !strings.Contains(errs[0].Error(), "turn") {
			t.Errorf("%q: measured %v; %v", bad, seen, errs)
		}
	}
}

func TestMedian(t *testing.T) {
	if got := Median([]float64{5, 1, 2}); got != 2 {
		t.Error(got)
	}
	if got := Median([]float64{4, 1, 2, 3}); got != 2.5 {
		t.Error(got)
	}
}

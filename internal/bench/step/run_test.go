package step

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/synth"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train"
)

// onRanks runs a measurement on ranks that are goroutines and returns rank 0's.
func onRanks(t *testing.T, size int, o Options) (r Result) {
	t.Helper()
	err := mem.Run(size, 2, func(c *collective.Comm) error {
		got, err := Run(c, o)
		if c.Rank() == 0 {
			r = got
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return r
}

func TestRun(t *testing.T) {
	for _, x := range []struct {
		ranks int
		o     Options
		flop  int64
	}{
		{1, Options{Workload: "w1", Batch: 64, Steps: 4, Batches: 2}, 64 * 6 * (600*256 + 2*256*256 + 256)},
		{2, Options{Workload: "w2", Batch: 64, Steps: 4, Batches: 2, Threads: 2, Model: "deepfm"}, 32 * 6 * ((26*16+13)*256 + 2*256*256 + 256)},
	} {
		r := onRanks(t, x.ranks, x.o)
		var parts float64
		for _, p := range r.Parts {
			parts += p.MS
		}
		if r.FLOP+r.Spared+r.Skipped != x.flop {
			t.Errorf("%+v: %d operations a step and %d spared, want %d", x.o, r.FLOP, r.Spared+r.Skipped, x.flop)
		}
		if skips := strings.HasPrefix(f32.Backend(), "AVX"); skips != (r.Skipped > 0) || skips != strings.Contains(r.String(), "deep/linear1: ") {
			t.Errorf("%+v: %d operations skipped, zeros %+v", x.o, r.Skipped, r.Zeros)
		}
		if r.NP != x.ranks || r.Speed <= 0 || r.StepMS <= 0 || r.Unique <= 0 || r.Bytes <= 0 || parts <= 0 || r.Allocs == nil {
			t.Errorf("%+v gives %+v", x.o, r)
		}
		if r.Cores > 0 && x.ranks > 1 {
			t.Errorf("%+v: %v samples for a second of CPU time, of ranks that also wait", x.o, r.Cores)
		}
		bound := float64(r.Bytes) / r.Machine.Bandwidth
		if f32.PeakFLOP(1) > 0 {
			bound = max(bound, float64(r.FLOP)/r.Machine.PeakFLOPS)
		}
		if want := bound / float64(max(x.o.Threads, 1)) / (r.StepMS / 1e3); math.Abs(r.Share/want-1) > 1e-9 {
			t.Errorf("%+v: %v of the bound, want %v", x.o, r.Share, want)
		}
		if text := r.String(); !strings.Contains(text, "backward") || !strings.Contains(text, r.Bound) {
			t.Errorf("the table is\n%s", text)
		}
	}
}

// TestStepsAllocateNothing: neither do the steps of two ranks, whose counts, keys, rows
// and gradients travel.
func TestStepsAllocateNothing(t *testing.T) {
	for _, ranks := range []int{1, 2} {
		r := onRanks(t, ranks, Options{Workload: "w1", Batch: 128, Steps: 21, Batches: 2})
		if r.Allocs == nil || *r.Allocs != 0 {
			t.Errorf("%d ranks: %v objects in the median step", ranks, r.Allocs)
		}
	}
}

// TestEpoch trains a small part of a workload and evaluates what follows it.
func TestEpoch(t *testing.T) {
	o := Options{Workload: "w2", Batch: 256}
	m, err := newMeter(collective.New(mem.New(1, 2)[0]), o.withDefaults())
	fatal.If(t, err)
	defer m.trainer.Close()
	m.w.Train, m.w.Test = 20_000, 4_000
	var r Result
	fatal.If(t, m.epoch(&r))
	if r.AUC == nil || *r.AUC < 0.6 || *r.AUC > 0.8 || math.IsNaN(*r.LogLoss) {
		t.Errorf("after %d rows: %+v", m.w.Train, r)
	}
}

func TestValidate(t *testing.T) {
	err := Options{Workload: "w3", Batch: -1, Threads: 1000}.Validate()
	for _, want := range []string{`no workload "w3"`, "batch -1", "threads 1000"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	for _, o := range []Options{{Workload: "w1", Model: "transformer"}, {Workload: "w1", Batch: 1 << 20, Batches: 1 << 10}} {
		if o.Validate() == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// BenchmarkRun is `wdlrun -np 1 bench step` inside one process, for profiles:
//
//	go test ./internal/bench/step -run xxx -bench Run/w1 -benchtime 1x -cpuprofile cpu.out
func BenchmarkRun(b *testing.B) {
	for _, name := range Workloads() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r, err := Run(collective.New(mem.New(1, 2)[0]), Options{Workload: name, Steps: 200})
				fatal.If(b, err)
				b.ReportMetric(r.Speed, "samples/s")
				b.ReportMetric(100*r.Share, "%bound")
			}
		})
	}
}

func TestRunOfAConfiguration(t *testing.T) {
	c := new(config.Config)
	c.Data.Train, c.Data.Header, c.Label.Field = []string{"elsewhere.csv"}, true, "y"
	c.Model.EmbeddingDim, c.Model.Hidden = 4, []int{16, 8}
	c.Features = []schema.Feature{
		{Field: "a", Encode: "hash", Buckets: 3}, {Field: "b", Encode: "vocabulary"}, {Field: "c", Encode: "raw"},
		{Field: "d", Encode: "boundaries", Boundaries: []float64{1, 2}},
	}
	c.Crosses = []schema.Cross{{Of: []string{"a", "b"}}}
	for _, ranks := range []int{1, 2} {
		r := onRanks(t, ranks, Options{Config: c, Batch: 32, Steps: 2, Batches: 2})
		if want := int64(32 / ranks * 6 * ((3*4+1)*16 + 16*8 + 8)); r.FLOP+r.Spared+r.Skipped != want {
			t.Errorf("%d ranks: %d operations a step, want %d", ranks, r.FLOP, want)
		}
		if r.Workload != "configuration" || r.Threads != 1 || r.Unique == 0 || r.Speed <= 0 {
			t.Errorf("%d ranks: %+v", ranks, r)
		}
	}
	if err := (Options{Config: c, Workload: "w1"}).Validate(); err == nil {
		t.Error("a configuration and a workload at once are allowed")
	}
	c.Train.Device = "gpu"
	for device, want := range map[string]error{"": train.ErrNoDevices, "gpu": train.ErrNoDevices, "cpu": nil} {
		if err := (Options{Config: c, Device: device}).Able(1); err != want {
			t.Errorf("-device %q with a configuration for a GPU: %v", device, err)
		}
	}
	c.Train.Device = ""
	for range synth.MaxFields {
		c.Features = append(c.Features, schema.Feature{Name: fmt.Sprint("x", len(c.Features)), Field: "a", Encode: "id"})
	}
	if err := (Options{Config: c}).Validate(); err == nil || !strings.Contains(err.Error(), "132 sparse") {
		t.Errorf("131 features and a cross: %v", err)
	}
}

package step

import (
	"fmt"
	"math"
	"strings"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// Result is the result on rank 0.
type Result struct {
	Workload  string   `json:"workload"`
	Model     string   `json:"model"`
	NP        int      `json:"np"`
	Threads   int      `json:"threads"`
	Batch     int      `json:"batch"` // of all ranks
	BF16      bool     `json:"bf16"`
	Speed     float64  `json:"samples_per_second"` // batch over the median step
	Growing   float64  `json:"samples_per_second_growing,omitempty"`
	Busy      []string `json:"busy"`                             // signs of other work on the machine; empty on a quiet one
	CoreShare float64  `json:"core_share,omitempty"`             // share of the steps' time for which this process had a core; only with one rank and one thread
	Cores     float64  `json:"samples_per_cpu_second,omitempty"` // batch over the median CPU time of a step; only with one rank
	Share     float64  `json:"roofline_share"`                   // time of the bound divided by the time of the step
	Bound     string   `json:"bound"`                            // what bounds the step: multiply-adds or memory
	FloorMS   float64  `json:"floor_ms"`                         // sum of the floors of the parts

	Allocs    *float64 `json:"allocs_per_step,omitempty"`   // heap objects of the process; median
	AllocRate *float64 `json:"allocs_per_second,omitempty"` // mean, including work concurrent with the steps
	GC        float64  `json:"gc_share"`                    // share of the CPU time
	Locks     float64  `json:"lock_wait_share"`             // time that goroutines waited, as a share of the CPU time

	StepMS float64 `json:"step_ms"` // median
	P10MS  float64 `json:"step_ms_p10"`
	P90MS  float64 `json:"step_ms_p90"`
	FLOP   int64   `json:"flop_per_step"` // per rank
	Saved
	Moved
	Buckets   []int    `json:"buckets,omitempty"`           // dense gradients that are summed together, in the order in which backward finishes them
	OverlapMS float64  `json:"buckets_beside_ms,omitempty"` // per step, of sums concurrent with the compute
	Parts     []Part   `json:"parts"`
	AUC       *float64 `json:"auc,omitempty"`
	// LogLoss is on the test rows, like AUC.
	LogLoss *float64 `json:"logloss,omitempty"`
	Machine Machine  `json:"machine"`
}

// Part is the time of a part of the step. The medians of the parts need not sum to the median of
// the step.
type Part struct {
	Name  string  `json:"name"`
	MS    float64 `json:"ms"` // median
	P10MS float64 `json:"ms_p10"`
	Cost
	FloorMS float64 `json:"floor_ms"`        // see Machine.Floor
	Bound   string  `json:"bound,omitempty"` // what bounds the floor
}

// Moved counts what a rank moves in a step, in bytes, and its keys.
type Moved struct {
	Bytes     int64 `json:"bytes_per_step"` // rows read and written, keys
	Sent      int64 `json:"sent_per_step"`  // to other ranks, sparse part
	Unique    int64 `json:"keys_per_step"`  // unique keys
	CopiedIn  int64 `json:"copied_to_device_per_step,omitempty"`
	CopiedOut int64 `json:"copied_from_device_per_step,omitempty"`
}

// Saved counts operations of the model that a rank's step did not need.
type Saved struct {
	Spared  int64   `json:"flop_spared_per_step,omitempty"`  // by computing with distinct rows once
	Skipped int64   `json:"flop_skipped_per_step,omitempty"` // multiplications by zeros
	Zeros   []Zeros `json:"zeros,omitempty"`                 // by layer
}

// Zeros are the shares of values that are exactly 0 in the matrices of a linear layer, and
// the operations skipped because of them. If none were skipped, the shares are estimated.
type Zeros struct {
	Layer    string  `json:"layer"`
	Input    float64 `json:"of_inputs"`    // the layer's input
	Gradient float64 `json:"of_gradients"` // gradient of the layer's output, after its ReLU
	Skipped  int64   `json:"flop_skipped_per_step"`
}

// skipped fills in the counts of zeros between two snapshots.
func (r *Result) skipped(before, after []dense.Zeros, steps int64) {
	for i, a := range after {
		b := before[i]
		z := Zeros{Layer: a.Layer, Skipped: 2 * (a.Skipped - b.Skipped) / steps}
		z.Input = float64(a.ZeroInputs-b.ZeroInputs) / float64(max(a.Inputs-b.Inputs, 1))
		z.Gradient = float64(a.ZeroGrads-b.ZeroGrads) / float64(max(a.Grads-b.Grads, 1))
		r.Skipped += z.Skipped
		if a.Inputs > b.Inputs {
			r.Zeros = append(r.Zeros, z)
		}
	}
}

// String returns a small table.
func (r Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, batch %d on %s of %s", r.Workload, r.Model, r.Batch, plural.Of(r.NP, "rank"), plural.Of(r.Threads, "thread"))
	if r.Machine.Device == "gpu" {
		b.WriteString("; GPUs compute the dense layers")
	}
	b.WriteString("\n\n")
	fmt.Fprintf(&b, "%.0f samples/s, step %.2f ms (median; p10 %.2f, p90 %.2f)\n", r.Speed, r.StepMS, r.P10MS, r.P90MS)
	if r.Cores > 0 {
		fmt.Fprintf(&b, "%.0f samples per second of CPU time\n", r.Cores)
	}
	if r.Growing > 0 {
		fmt.Fprintf(&b, "%.0f samples/s in the first pass over the batches, while tables grow\n", r.Growing)
	}
	r.table(&b)
	if r.NP > 1 {
		fmt.Fprintf(&b, "\ndense gradients are summed in %d buckets of %v floats, %.2f ms of it during compute\n", len(r.Buckets), r.Buckets, r.OverlapMS)
	}
	fmt.Fprintf(&b, "\na rank's step   %.2f GFLOP, %.1f MB of rows, %d unique keys, %.2f MB of sparse traffic\n",
		float64(r.FLOP)*1e-9, float64(r.Bytes)*1e-6, r.Unique, float64(r.Sent)*1e-6)
	if r.CopiedIn > 0 {
		fmt.Fprintf(&b, "copied          %.3f MB to the device, %.3f MB from it\n", float64(r.CopiedIn)*1e-6, float64(r.CopiedOut)*1e-6)
	}
	if r.Spared > 0 {
		fmt.Fprintf(&b, "spared          %.2f GFLOP of the first layer, which multiplies each distinct row once; with the spared and skipped ones the step does %.0f GFLOP/s\n",
			float64(r.Spared)*1e-9, float64(r.FLOP+r.Spared+r.Skipped)*1e-6/r.StepMS)
	}
	for _, z := range r.Zeros {
		fmt.Fprintf(&b, "zeros           %s: %.0f %% of inputs, %.0f %% of gradients; %.3f GFLOP skipped\n", z.Layer, 100*z.Input, 100*z.Gradient, float64(z.Skipped)*1e-9)
	}
	if r.Machine.Device != "gpu" {
		r.Machine.write(&b)
		fmt.Fprintf(&b, "bound           %s: the step reaches %.1f %% of it, %.1f %% of the floors of its parts\n", r.Bound, 100*r.Share, 100*r.FloorMS/r.StepMS)
		far := r.furthest()
		fmt.Fprintf(&b, "furthest        %s, %.2f ms above its floor\n", far.Name, far.MS-far.FloorMS)
	}
	if r.Allocs != nil {
		fmt.Fprintf(&b, "allocations     %.0f in the median step, %.0f per second\n", *r.Allocs, *r.AllocRate)
	}
	fmt.Fprintf(&b, "collector       %.2f %% of the CPU time; waiting for locks %.2f %%\n", 100*r.GC, 100*r.Locks)
	r.writeBusy(&b)
	if r.AUC != nil {
		fmt.Fprintf(&b, "test            AUC %.5f, log-loss %.5f\n", *r.AUC, *r.LogLoss)
	}
	return b.String()
}

// table writes the parts: their times, costs and floors. Costs and floors are for a CPU.
func (r Result) table(b *strings.Builder) {
	total := 0.0
	for _, p := range r.Parts {
		total += p.MS
	}
	if r.Machine.Device == "gpu" {
		fmt.Fprintf(b, "\n%-16s %8s %8s %7s\n", "part", "ms", "ms, p10", "share")
		for _, p := range r.Parts {
			fmt.Fprintf(b, "%-16s %8.3f %8.3f %6.1f%%\n", p.Name, p.MS, p.P10MS, 100*p.MS/total)
		}
		return
	}
	fmt.Fprintf(b, "\n%-16s %8s %8s %7s %8s %8s %8s %8s %7s  %s\n", "part", "ms", "ms, p10", "share", "GFLOP", "memory", "cache", "floor", "of it", "bound")
	for _, p := range r.Parts {
		fmt.Fprintf(b, "%-16s %8.3f %8.3f %6.1f%% %8.3f %5.1f MB %5.1f MB %8.3f %6.1f%%  %s\n", p.Name, p.MS, p.P10MS, 100*p.MS/total,
			float64(p.FLOP)*1e-9, float64(p.Memory)*1e-6, float64(p.Cache)*1e-6, p.FloorMS, 100*p.FloorMS/max(p.MS, 1e-9), p.Bound)
	}
}

// signs lists the signs of other work on the machine during the measurement, none on a
// quiet machine. The times can then be compared only with times of the same run.
func (r Result) signs() (all []string) {
	all = []string{} // in JSON a list, even if empty
	say := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	say(r.CoreShare > 0 && r.CoreShare < quietCores, "for %.0f %% of the steps' time others had the core", 100*(1-r.CoreShare))
	say(r.P90MS > quietSteps*r.P10MS, "of ten steps one took %.1f times as long as the fastest", r.P90MS/r.P10MS)
	m := r.Machine
	say(m.PeakP90 > quietPeaks*m.PeakP10, "multiply-adds went at %.0f to %.0f GFLOP/s", m.PeakP10*1e-9, m.PeakP90*1e-9)
	say(r.Share > 1, "the step took %.0f %% of its bound: they were measured at different speeds", 100/r.Share)
	return all
}

// writeBusy prints the signs.
func (r Result) writeBusy(b *strings.Builder) {
	if len(r.Busy) > 0 {
		fmt.Fprintf(b, "busy machine    %s: compare only with what ran at the same time\n", strings.Join(r.Busy, "; "))
	}
}

// account fills in the costs and floors of the parts.
func (r *Result) account(s shapes) {
	for i, c := range s.costs() {
		p := &r.Parts[i]
		floor, bound := r.Machine.Floor(c, r.Threads)
		p.Cost, p.FloorMS, p.Bound = c, floor*1e3, bound
		r.FloorMS += p.FloorMS
	}
}

// furthest returns the part with the most time above its floor.
func (r *Result) furthest() (far Part) {
	most := math.Inf(-1)
	for _, p := range r.Parts {
		if gap := p.MS - p.FloorMS; gap > most {
			most, far = gap, p
		}
	}
	return far
}

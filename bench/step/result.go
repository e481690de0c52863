package step

import (
	"fmt"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/trace"
)

// Result is the outcome on rank 0.
type Result struct {
	Workload string  `json:"workload"`
	Model    string  `json:"model"`
	NP       int     `json:"np"`
	Threads  int     `json:"threads"`
	Batch    int     `json:"batch"` // of all ranks
	BF16     bool    `json:"bf16"`
	Speed    float64 `json:"samples_per_second"` // batch over the median step
	Growing  float64 `json:"samples_per_second_growing,omitempty"`
	Share    float64 `json:"roofline_share"` // of the time of the bound in that of the step
	Bound    string  `json:"bound"`          // what the bound is: multiply-adds or memory

	Allocs *float64 `json:"allocs_per_step,omitempty"` // heap objects of the process
	GC     float64  `json:"gc_share"`                  // of the CPU time
	Locks  float64  `json:"lock_wait_share"`           // of the CPU time; goroutines that waited

	StepMS float64  `json:"step_ms"` // the median
	P90MS  float64  `json:"step_ms_p90"`
	FLOP   int64    `json:"flop_per_step"`  // of a rank
	Bytes  int64    `json:"bytes_per_step"` // of a rank: rows read and written, keys
	Sent   int64    `json:"sent_per_step"`  // of a rank to others, sparse part
	Unique int64    `json:"keys_per_step"`  // of a rank, unique
	Parts  []Part   `json:"parts"`
	AUC    *float64 `json:"auc,omitempty"`
	// LogLoss is of the test rows, as AUC.
	LogLoss *float64 `json:"logloss,omitempty"`
	Machine Machine  `json:"machine"`
}

// Part is the mean time of a part of the step.
type Part struct {
	Name string  `json:"name"`
	MS   float64 `json:"ms"`
}

// report fills in what was measured between two snapshots.
func (m *meter) report(r *Result, before, after snapshot) {
	steps := int64(len(m.seconds))
	per := func(d time.Duration) float64 { return d.Seconds() * 1e3 / float64(steps) }
	phase := func(p trace.Phase) time.Duration { return after.phases[p] - before.phases[p] }
	pool, forward := after.spent.Pool-before.spent.Pool, after.spent.Forward-before.spent.Forward
	backward, keys := after.spent.Backward-before.spent.Backward, after.spent.Keys-before.spent.Keys
	r.Parts = []Part{
		{"pull", per(phase(trace.Pull))}, {"pool", per(pool)}, {"forward", per(forward)}, {"backward", per(backward)},
		{"key gradients", per(keys)}, {"rest of compute", per(phase(trace.Compute) - pool - forward - backward - keys)},
		{"push", per(phase(trace.Push))}, {"sync", per(phase(trace.Sync))}, {"update", per(phase(trace.Update))},
	}
	median := medianOf(m.seconds)
	r.StepMS, r.P90MS, r.Speed = median*1e3, m.seconds[(steps*9)/10]*1e3, float64(m.o.Batch)/median
	r.FLOP = m.flop()
	b, a := before.traffic, after.traffic
	r.Unique = (a.UniqueKeys - b.UniqueKeys) / steps
	record := int64(8 * (m.w.Dim + 1)) // values and Adagrad's state
	r.Bytes = 2*record*(a.StepsOfRows-b.StepsOfRows)/steps + 8*(a.KeysPulled-b.KeysPulled)/steps
	r.Sent = (a.BytesSent() - b.BytesSent()) / steps
	r.Machine.PeakFLOPS = medianOf(m.peaks)
	compute := 0.0
	if r.Machine.PeakFLOPS > 0 {
		compute = float64(r.FLOP) / (r.Machine.PeakFLOPS * float64(m.o.Threads))
	}
	memory := float64(r.Bytes) / r.Machine.Bandwidth
	r.Bound, r.Share = "multiply-adds", compute/median
	if memory > compute {
		r.Bound, r.Share = "memory", memory/median
	}
	r.Allocs = ptr(float64(after.mallocs-before.mallocs) / float64(steps))
	if cpu := after.runtime[1] - before.runtime[1]; cpu > 0 {
		r.GC, r.Locks = (after.runtime[0]-before.runtime[0])/cpu, (after.runtime[2]-before.runtime[2])/cpu
	}
}

// String is a small table for people.
func (r Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, batch %d on %d ranks of %d threads\n\n", r.Workload, r.Model, r.Batch, r.NP, r.Threads)
	fmt.Fprintf(&b, "%.0f samples/s, step %.2f ms (nine of ten under %.2f)\n", r.Speed, r.StepMS, r.P90MS)
	if r.Growing > 0 {
		fmt.Fprintf(&b, "%.0f samples/s while tables grow\n", r.Growing)
	}
	fmt.Fprintf(&b, "\n%-16s %9s %7s\n", "part", "ms", "share")
	total := 0.0
	for _, p := range r.Parts {
		total += p.MS
	}
	for _, p := range r.Parts {
		fmt.Fprintf(&b, "%-16s %9.3f %6.1f%%\n", p.Name, p.MS, 100*p.MS/total)
	}
	fmt.Fprintf(&b, "\na rank's step   %.2f GFLOP, %.1f MB of rows, %d unique keys, %.2f MB of sparse traffic\n",
		float64(r.FLOP)*1e-9, float64(r.Bytes)*1e-6, r.Unique, float64(r.Sent)*1e-6)
	fmt.Fprintf(&b, "a thread's peak %.0f GFLOP/s of multiply-adds, %.1f GB/s of memory\n", r.Machine.PeakFLOPS*1e-9, r.Machine.Bandwidth*1e-9)
	fmt.Fprintf(&b, "bound           %s: the step reaches %.1f %% of it\n", r.Bound, 100*r.Share)
	if r.Allocs != nil {
		fmt.Fprintf(&b, "allocations     %.2f a step\n", *r.Allocs)
	}
	fmt.Fprintf(&b, "collector       %.2f %% of the CPU time; waiting for locks %.2f %%\n", 100*r.GC, 100*r.Locks)
	if r.AUC != nil {
		fmt.Fprintf(&b, "test            AUC %.5f, log-loss %.5f\n", *r.AUC, *r.LogLoss)
	}
	return b.String()
}

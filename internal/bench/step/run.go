package step

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/bench"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// meter is one rank's measurement.
type meter struct {
	o         Options
	w         *Workload
	hidden    []int // widths of the hidden layers
	comm      *collective.Comm
	rec       *trace.Recorder
	trainer   *step.Trainer
	device    step.Device // nil: the CPU
	step      int64
	now, next [1]*encode.Batch          // of this step and of the next
	seconds   []float64                 // of each timed step
	cores     []float64                 // CPU seconds of this process in each
	peaks     []float64                 // multiply-adds per second, between them
	halfPeaks []float64                 // the same for bfloat16; empty unless the step uses it
	objects   []float64                 // heap objects allocated by this process in each timed step
	parts     [len(partNames)][]float64 // seconds of each part of the timed steps
	heap      [len(heapCounters)]metrics.Sample
}

// Run makes the measurements of o. All ranks call it with the same options; the result is
// on rank 0.
func Run(comm *collective.Comm, o Options) (Result, error) {
	if err := o.Validate(); err != nil {
		return Result{}, err
	}
	m, err := newMeter(comm, o.withDefaults())
	if err != nil {
		return Result{}, fmt.Errorf("step: %w", err)
	}
	defer m.trainer.Close()
	if m.device != nil {
		defer m.device.End()
	}
	if err := collective.Barrier(comm); err != nil {
		return Result{}, err
	}
	r := Result{Workload: m.w.Name, Model: m.o.Model, NP: comm.Size(), BF16: m.o.BF16, Threads: m.o.Threads, Batch: m.o.Batch}
	r.Machine.Device = "gpu"
	if m.device == nil {
		r.Machine = Machine{Device: "cpu", Bandwidth: bandwidth(copyBytes), Lines: lineRate(), CacheBandwidth: bandwidth(cacheBytes)}
	}
	if o.Epoch {
		err = m.epoch(&r)
	} else {
		err = m.steps(&r)
	}
	return r, err
}

// spans is the number of spans that a training keeps in its timeline.
const spans = 1 << 16

// newMeter returns a meter for o, whose zero options have been replaced.
func newMeter(comm *collective.Comm, o Options) (*meter, error) {
	s, err := o.subject()
	if err != nil {
		return nil, err
	}
	o.BF16 = s.config.Train.Precision == "bf16"
	m := &meter{o: o, w: s.rows, hidden: s.config.Model.Hidden, comm: comm, rec: trace.New(spans)}
	comm.Watch(m.rec.Exchange) // as in a training
	for i, name := range heapCounters {
		m.heap[i].Name = name
	}
	l := layout.New(s.config, s.columns, s.rows.inputs())
	if m.trainer, err = step.NewTrainer(comm, m.rec, s.config, l, step.Tables{}); err != nil || s.config.Train.Device != "gpu" {
		return m, err
	}
	err = m.trainer.ComputeOn(false, func(a *dense.Arena) (_ step.Device, err error) {
		m.device, _, err = o.Devices.Open(a, s.config, l)
		return m.device, err
	})
	if err != nil {
		return nil, errors.Join(err, m.trainer.Close())
	}
	return m, nil
}

// batch returns this rank's part of the global batch that begins with row from.
func (m *meter) batch(from int64) *encode.Batch {
	lo, hi := collective.Chunk(m.o.Batch, m.comm.Size(), m.comm.Rank())
	return m.w.Batch(from+int64(lo), from+int64(hi))
}

// train takes one step on b and returns its seconds. next is the batch of the following
// step.
func (m *meter) train(b, next *encode.Batch) (float64, error) {
	start := time.Now()
	m.step++
	m.now[0], m.next[0] = b, next
	c := step.Input{N: m.step, Rate: 1, Batches: m.now[:], Next: m.next[:]}
	if next == nil {
		c.Next = nil
	}
	_, err := m.trainer.Step(c)
	m.rec.Enter(trace.Input)
	if m.o.Progress != nil {
		m.o.Progress(m.step)
	}
	return time.Since(start).Seconds(), err
}

// timed takes a timed step and, every peakEvery steps, measures the CPU's peak.
func (m *meter) timed(i int, b, next *encode.Batch) error {
	had := report.ProcessTime()
	before, objects := m.times(), m.made()
	s, err := m.train(b, next)
	if err != nil {
		return err
	}
	m.objects = append(m.objects, float64(m.made()-objects))
	m.cores = append(m.cores, (report.ProcessTime() - had).Seconds())
	m.seconds = append(m.seconds, s)
	for k, at := range m.times() {
		m.parts[k] = append(m.parts[k], (at - before[k]).Seconds())
	}
	if i%peakEvery == 0 && m.device == nil {
		m.peaks = append(m.peaks, peak(f32.PeakFLOP, m.flop()))
		if m.o.BF16 {
			m.halfPeaks = append(m.halfPeaks, peak(f32.PeakBF16FLOP, m.flop()))
		}
		return collective.Barrier(m.comm) // the next step must not wait for another rank's peak
	}
	return nil
}

// reserve allocates memory for the times of n steps, so that measuring allocates nothing.
func (m *meter) reserve(n int) {
	m.seconds, m.cores, m.objects = make([]float64, 0, n), make([]float64, 0, n), make([]float64, 0, n)
	m.peaks, m.halfPeaks = make([]float64, 0, n), make([]float64, 0, n)
	for k := range m.parts {
		m.parts[k] = make([]float64, 0, n)
	}
}

// times returns how long this rank has spent in each part since the start.
func (m *meter) times() [len(partNames)]time.Duration {
	p, c := m.rec.Totals(), m.trainer.Spent()
	rest := p[trace.Compute] - c.Pool - c.Forward - c.Backward - c.Keys
	return [...]time.Duration{p[trace.Pull], c.Pool, c.Forward, c.Backward, c.Keys, rest, p[trace.Push], p[trace.Sync], p[trace.Update]}
}

// shapes returns the sizes of a step of this rank, from the counts of a number of steps,
// the unique keys of one step, and its operations.
func (m *meter) shapes(keys, updated, unique, flop, steps int64) shapes {
	s := shapes{
		rows: int64(m.o.Batch / m.comm.Size()), keys: keys / steps, unique: unique, updated: updated / steps,
		value: int64(m.w.Dim + 1), width: int64(m.w.Dim*len(m.w.Values()) + m.w.Dense()),
		parameters: int64(m.trainer.Parameters()), flop: flop, ranks: int64(m.comm.Size()), element: 4,
	}
	for _, h := range m.hidden {
		s.hidden += int64(h)
	}
	if m.o.BF16 {
		s.element = 2
	}
	return s
}

// flop returns the operations of a step of this rank; a multiply-add counts as two.
func (m *meter) flop() int64 { return int64(m.o.Batch/m.comm.Size()) * m.trainer.FLOP() }

// steps trains on the batches once, then times further steps on them.
func (m *meter) steps(r *Result) error {
	batches := make([]*encode.Batch, m.o.Batches)
	for i := range batches {
		batches[i] = m.batch(int64(i) * int64(m.o.Batch))
	}
	var growing []float64
	for i, b := range batches {
		s, err := m.train(b, batches[(i+1)%len(batches)])
		if err != nil {
			return err
		}
		growing = append(growing, s)
	}
	r.Growing = float64(m.o.Batch) / bench.Median(growing)
	m.reserve(m.o.Steps)
	runtime.GC()
	before := m.snapshot()
	for i := range m.o.Steps {
		if err := m.timed(i, batches[i%len(batches)], batches[(i+1)%len(batches)]); err != nil {
			return err
		}
	}
	after := m.snapshot()
	m.report(r, before, after)
	return collective.Barrier(m.comm)
}

// epoch trains on every whole batch of the workload's training rows, in order, and
// evaluates its test rows.
func (m *meter) epoch(r *Result) error {
	n := m.w.Train / int64(m.o.Batch)
	m.reserve(int(n))
	before := m.snapshot()
	for i, b := int64(0), m.batch(0); i < n; i++ {
		var next *encode.Batch
		if i+1 < n {
			next = m.batch((i + 1) * int64(m.o.Batch))
		}
		if err := m.timed(int(i), b, next); err != nil {
			return err
		}
		b = next
	}
	m.report(r, before, m.snapshot())
	r.Allocs, r.AllocRate = nil, nil // they would mostly count the generation of rows
	next, end := m.w.Train, m.w.Train+m.w.Test
	figures, err := m.trainer.Evaluate(func() (*encode.Batch, error) {
		if next >= end {
			return nil, nil
		}
		rows := int(min(end-next, int64(m.o.Batch)))
		lo, hi := collective.Chunk(rows, m.comm.Size(), m.comm.Rank())
		b := m.w.Batch(next+int64(lo), next+int64(hi))
		next += int64(rows)
		return b, nil
	})
	if err != nil {
		return err
	}
	r.AUC, r.LogLoss = figures.AUC, &figures.LogLoss
	return nil
}

// made returns the number of objects that this process has allocated on the heap.
func (m *meter) made() uint64 {
	metrics.Read(m.heap[:])
	return m.heap[0].Value.Uint64() + m.heap[1].Value.Uint64()
}

// heapCounters count allocated objects: those with separate memory, and those packed into
// blocks.
var heapCounters = [2]string{"/gc/heap/allocs:objects", "/gc/heap/tiny/allocs:objects"}

// snapshot holds the values of all counters at one time.
type snapshot struct {
	traffic sparse.Counters
	spared  int64 // operations of products
	in, out int64 // bytes copied to the device and from it
	zeros   []dense.Zeros
	overlap time.Duration // for which buckets of dense gradients were summed
	runtime [3]float64    // values of runtimeCounters
}

// runtimeCounters are the CPU seconds of the collector and of the process, and the
// seconds for which goroutines waited for locks.
var runtimeCounters = [3]string{"/cpu/classes/gc/total:cpu-seconds", "/cpu/classes/total:cpu-seconds", "/sync/mutex/wait/total:seconds"}

func (m *meter) snapshot() (s snapshot) {
	var samples [len(runtimeCounters)]metrics.Sample
	for i, name := range runtimeCounters {
		samples[i].Name = name
	}
	metrics.Read(samples[:])
	for i, x := range samples {
		s.runtime[i] = x.Value.Float64()
	}
	s.traffic = m.trainer.Traffic()
	s.spared, s.zeros = m.trainer.Saved()
	_, s.overlap = m.trainer.Buckets()
	if d, ok := m.device.(interface{ Copied() (in, out int64) }); ok {
		s.in, s.out = d.Copied()
	}
	return s
}

// report fills in the measurements between two snapshots.
func (m *meter) report(r *Result, before, after snapshot) {
	steps := int64(len(m.seconds))
	for k, name := range partNames {
		median := bench.Median(m.parts[k])
		r.Parts = append(r.Parts, Part{Name: name, MS: median * 1e3, P10MS: m.parts[k][steps/10] * 1e3})
	}
	r.CoreShare = m.coreShare()
	median := bench.Median(m.seconds)
	r.StepMS, r.P10MS, r.P90MS, r.Speed = median*1e3, m.seconds[steps/10]*1e3, m.seconds[(steps*9)/10]*1e3, float64(m.o.Batch)/median
	if cores := bench.Median(m.cores); r.NP == 1 && cores > 0 {
		r.Cores = float64(m.o.Batch) / cores
	}
	r.Spared = (after.spared - before.spared) / steps
	r.skipped(before.zeros, after.zeros, steps)
	r.FLOP = m.flop() - r.Spared - r.Skipped
	b, a := before.traffic, after.traffic
	r.Unique = (a.UniqueKeys - b.UniqueKeys) / steps
	record := int64(8 * (m.w.Dim + 1)) // values and Adagrad's state
	r.Bytes = 2*record*(a.StepsOfRows-b.StepsOfRows)/steps + 8*(a.KeysPulled-b.KeysPulled)/steps
	r.Sent = (a.BytesSent() - b.BytesSent()) / steps
	r.CopiedIn, r.CopiedOut = (after.in-before.in)/steps, (after.out-before.out)/steps
	floats, _ := m.trainer.Buckets()
	r.Buckets, r.OverlapMS = floats, (after.overlap-before.overlap).Seconds()*1e3/float64(steps)
	if m.device == nil {
		r.Machine.PeakFLOPS, r.Machine.PeakBF16FLOPS = bench.Median(m.peaks), bench.Median(m.halfPeaks)
		r.Machine.PeakP10, r.Machine.PeakP90 = m.peaks[len(m.peaks)/10], m.peaks[(len(m.peaks)*9)/10]
		least, bound := r.Machine.Floor(Cost{FLOP: r.FLOP, Memory: r.Bytes}, m.o.Threads)
		r.Bound, r.Share = bound, least/median
		r.account(m.shapes(a.KeysPulled-b.KeysPulled, a.StepsOfRows-b.StepsOfRows, r.Unique, r.FLOP, steps))
	}
	made, took := 0.0, 0.0
	for i, n := range m.objects {
		made, took = made+n, took+m.seconds[i]
	}
	r.Allocs, r.AllocRate = ptr(bench.Median(m.objects)), ptr(made/took)
	if cpu := after.runtime[1] - before.runtime[1]; cpu > 0 {
		r.GC, r.Locks = (after.runtime[0]-before.runtime[0])/cpu, (after.runtime[2]-before.runtime[2])/cpu
	}
	r.Busy = r.signs()
}

// coreShare returns the share of the steps' time for which the only thread had a core. It
// returns 0 if that is unknown, as for ranks and threads that wait for each other.
func (m *meter) coreShare() float64 {
	had, took := 0.0, 0.0
	for i, s := range m.seconds {
		had, took = had+m.cores[i], took+s
	}
	if m.comm.Size() > 1 || m.o.Threads > 1 || took == 0 {
		return 0
	}
	return had / took
}

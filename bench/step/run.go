package step

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/data"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
	"github.com/wdlrun/wdlrun/wdl"
)

// meter is one rank's measurement.
type meter struct {
	o       Options
	w       *Workload
	comm    *collective.Comm
	rec     *trace.Recorder
	trainer *wdl.Trainer
	step    int64
	seconds []float64 // of each timed step
	peaks   []float64 // multiply-adds a second, between them
}

// Run measures what o asks for. All ranks call it alike; the result is rank 0's.
func Run(comm *collective.Comm, o Options) (Result, error) {
	if err := o.Validate(); err != nil {
		return Result{}, err
	}
	m, err := newMeter(comm, o.withDefaults())
	if err != nil {
		return Result{}, fmt.Errorf("step: %w", err)
	}
	defer m.trainer.Close()
	if err := collective.Barrier(comm); err != nil {
		return Result{}, err
	}
	r := Result{Workload: m.w.Name, Model: m.o.Model, NP: comm.Size(), BF16: m.o.BF16, Threads: m.o.Threads, Batch: m.o.Batch}
	r.Machine.Bandwidth = bandwidth()
	if o.Epoch {
		err = m.epoch(&r)
	} else {
		err = m.steps(&r)
	}
	return r, err
}

// newMeter makes the trainer of o, whose zero options have been replaced.
func newMeter(comm *collective.Comm, o Options) (*meter, error) {
	s, err := o.subject()
	if err != nil {
		return nil, err
	}
	o.BF16 = s.config.Train.Precision == "bf16"
	m := &meter{o: o, w: s.rows, comm: comm, rec: trace.New(0)}
	m.trainer, err = wdl.NewTrainer(comm, m.rec, s.config, s.columns, s.rows.dense())
	return m, err
}

// batch is this rank's part of the global batch that begins with row from.
func (m *meter) batch(from int64) *data.Batch {
	lo, hi := collective.Chunk(m.o.Batch, m.comm.Size(), m.comm.Rank())
	return m.w.Batch(from+int64(lo), from+int64(hi))
}

// train takes one step, which next follows, and returns its seconds.
func (m *meter) train(b, next *data.Batch) (float64, error) {
	start := time.Now()
	m.step++
	_, err := m.trainer.Step(m.step, 1, b, next, wdl.Wish{})
	m.rec.Enter(trace.Input)
	if m.o.Progress != nil {
		m.o.Progress(m.step)
	}
	return time.Since(start).Seconds(), err
}

// flop is what a step of this rank has of multiply-adds, each counting two.
func (m *meter) flop() int64 { return int64(m.o.Batch/m.comm.Size()) * m.trainer.FLOP() }

// steps trains on the batches once, then times further steps on them.
func (m *meter) steps(r *Result) error {
	batches := make([]*data.Batch, m.o.Batches)
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
	r.Growing = float64(m.o.Batch) / medianOf(growing)
	m.seconds, m.peaks = make([]float64, 0, m.o.Steps), make([]float64, 0, m.o.Steps)
	runtime.GC()
	before := m.snapshot()
	for i := range m.o.Steps {
		s, err := m.train(batches[i%len(batches)], batches[(i+1)%len(batches)])
		if err != nil {
			return err
		}
		m.seconds = append(m.seconds, s)
		if i%peakEvery == 0 {
			m.peaks = append(m.peaks, peak(m.flop()))
		}
	}
	after := m.snapshot()
	m.report(r, before, after)
	return collective.Barrier(m.comm)
}

// epoch trains on every whole batch of the workload's training rows, in order,
// and evaluates its test rows.
func (m *meter) epoch(r *Result) error {
	n := m.w.Train / int64(m.o.Batch)
	m.seconds, m.peaks = make([]float64, 0, n), make([]float64, 0, n)
	before := m.snapshot()
	for i, b := int64(0), m.batch(0); i < n; i++ {
		var next *data.Batch
		if i+1 < n {
			next = m.batch((i + 1) * int64(m.o.Batch))
		}
		s, err := m.train(b, next)
		b = next
		if err != nil {
			return err
		}
		m.seconds = append(m.seconds, s)
		if i%peakEvery == 0 {
			m.peaks = append(m.peaks, peak(m.flop()))
		}
	}
	m.report(r, before, m.snapshot())
	r.Allocs = nil // of making rows, above all
	next, end := m.w.Train, m.w.Train+m.w.Test
	figures, err := m.trainer.Evaluate(func() (*data.Batch, error) {
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
	r.AUC, r.LogLoss = &figures.AUC, &figures.LogLoss
	return nil
}

// snapshot is where the counters stand.
type snapshot struct {
	phases  [trace.Phases]time.Duration
	spent   wdl.Spent
	traffic sparse.Counters
	mallocs uint64
	runtime [3]float64 // of runtimeCounters
}

// runtimeCounters are the CPU seconds of the collector and of all, and the
// seconds that goroutines waited for locks.
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
	s.phases, s.spent, s.traffic = m.rec.Totals(), m.trainer.Spent(), m.trainer.Traffic()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	s.mallocs = mem.Mallocs
	return s
}

// medianOf sorts x and returns its middle.
func medianOf(x []float64) float64 {
	slices.Sort(x)
	n := len(x)
	if n == 0 {
		return 0
	}
	return (x[(n-1)/2] + x[n/2]) / 2
}

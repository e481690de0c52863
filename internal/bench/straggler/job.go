package straggler

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/simnet"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/wdl/config"
	"github.com/wdlrun/wdlrun/internal/wdl/layout"
	"github.com/wdlrun/wdlrun/internal/wdl/slots"
	"github.com/wdlrun/wdlrun/internal/wdl/step"
	"github.com/wdlrun/wdlrun/trace"
)

// Faults determines how slow a rank is. A *chaos.Injector of the rank implements it.
type Faults interface {
	Slow(step int64, at time.Duration) float64
	Stop(step int64, at time.Duration) (time.Duration, int)
}

// MaxRanks bounds a job.
const MaxRanks = slots.MaxSlots

// Job is a training with the real step code whose ranks are slow deliberately. For fields
// after Tolerance, the zero value is the default.
type Job struct {
	Tolerance step.Tolerance // zero: plain steps, which wait
	Steps     int64          // measured steps; default 300
	Seed      uint64

	// A microbatch stalls with probability StallShare. The stall is exponentially
	// distributed with a mean of stallSteps undisturbed microbatches.
	StallShare float64

	Faults func(rank int) Faults // nil: none

	// Compute is the modelled time of an undisturbed microbatch; 0: its real time on this
	// machine.
	Compute time.Duration
}

// Measured is the result of a Job.
type Measured struct {
	SamplesPerSecond float64  `json:"samples_per_second"`
	LateSlots        int64    `json:"late_slots"`
	CommittedSamples int64    `json:"committed_samples"`
	Ranks            int      `json:"np"`
	Mode             string   `json:"mode"`
	Backup           int      `json:"backup"`
	Steps            int64    `json:"steps"`
	Seconds          float64  `json:"seconds"`
	Modelled         bool     `json:"modelled"` // compute and links
	Notes            []string `json:"notes,omitempty"`
}

// The workload is a model whose arithmetic takes little of the modelled time.
const (
	jobRows       = 1024 // per microbatch
	jobChunks     = 4    // chunks per microbatch
	jobFields     = 4
	jobVocabulary = 997
	jobWarm       = 16 // steps before the measurement, in which the usual time is learnt
	stallSteps    = 4
)

// Network returns the modelled network: one rank per host, 25 Gbit/s.
func Network() simnet.Model {
	return simnet.Model{Latency: 10 * time.Microsecond, BytesPerSecond: 25e9 / 8, Overhead: 60}
}

// Simulate runs a job with ranks goroutines as ranks, over a modelled network. In a
// testing/synctest bubble its time is virtual; Job.Compute must then be set.
func Simulate(ranks int, job Job) (m Measured, err error) {
	if err := job.Validate(ranks); err != nil {
		return m, err
	}
	if job.Compute == 0 {
		return m, errors.New("straggler: simulate: say what a microbatch takes")
	}
	errs := make([]error, ranks)
	var all sync.WaitGroup
	for r, transport := range simnet.New(ranks, 2, Network()) {
		comm := collective.New(transport)
		all.Go(func() {
			got, err := Measure(comm, job)
			if errs[r] = err; err != nil {
				comm.Abort(err)
			}
			if r == 0 {
				m = got
			}
		})
	}
	all.Wait()
	m.Modelled = true
	return m, errors.Join(errs...)
}

// Measure runs a job on the ranks of comm. All ranks call it with the same job.
func Measure(comm *collective.Comm, job Job) (Measured, error) {
	if job.Steps == 0 {
		job.Steps = 300
	}
	trainer, err := newTrainer(comm)
	if err != nil {
		return Measured{}, err
	}
	defer trainer.Close()
	trainer.Hold(job.delays(comm.Rank()))
	m := Measured{Ranks: comm.Size(), Mode: job.Tolerance.Mode.String(), Backup: job.Tolerance.Backup, Steps: job.Steps}
	take, end, err := job.stepper(trainer, comm, &m)
	if err != nil {
		return m, err
	}
	defer end()
	var start time.Time
	for n := int64(1); n <= jobWarm+job.Steps; n++ {
		rows, late, err := take(n)
		if err != nil {
			return m, err
		}
		if n == jobWarm {
			start = time.Now()
		}
		if n > jobWarm {
			m.CommittedSamples += rows
			m.LateSlots += int64(late)
		}
	}
	m.Seconds = time.Since(start).Seconds()
	m.SamplesPerSecond = float64(m.CommittedSamples) / m.Seconds
	return m, collective.Barrier(comm)
}

// stepper returns a function that takes step n of a job, and one that ends the job.
func (job Job) stepper(trainer *step.Trainer, comm *collective.Comm, m *Measured) (take func(n int64) (rows int64, late int, err error), end func(), err error) {
	source := newRows(comm.Rank())
	if job.Tolerance.Mode == slots.Wait {
		return func(n int64) (int64, int, error) {
			out, err := trainer.Step(step.Coming{N: n, Rate: 1, Batches: source[n%jobBatches:][:1], Next: source[(n+1)%jobBatches:][:1]})
			return out.Rows, 0, err
		}, func() {}, nil
	}
	queue := step.Microbatches(0, 2*(jobWarm+job.Steps), comm.Size()) // longer than the job
	say := func(line string) { m.Notes = append(m.Notes, line) }
	x, err := trainer.Tolerate(job.Tolerance, slots.Record{Queue: queue}, source, say)
	if err != nil {
		return nil, nil, err
	}
	return func(n int64) (int64, int, error) {
		out, err := trainer.Step(step.Coming{N: n, Rate: 1})
		r := x.Record()
		m.Backup = x.Backup()
		return out.Rows, r.Leased - len(r.Pieces), err
	}, x.Close, nil
}

// delays returns the function that makes a rank as slow as the job demands.
func (job Job) delays(rank int) func(step int64, took time.Duration) time.Duration {
	rng := rand.New(rand.NewPCG(job.Seed, uint64(rank)))
	var faults Faults
	if job.Faults != nil {
		faults = job.Faults(rank)
	}
	start := time.Now()
	return func(step int64, took time.Duration) (pause time.Duration) {
		usual, factor := took, 1.0
		if job.Compute > 0 {
			usual = job.Compute / jobChunks
			pause = usual
		}
		if faults != nil {
			stop, _ := faults.Stop(step, time.Since(start))
			factor = faults.Slow(step, time.Since(start))
			pause += stop
		}
		pause += time.Duration((factor - 1) * float64(usual))
		if rng.Float64()*jobChunks < job.StallShare {
			pause += time.Duration(rng.ExpFloat64() * stallSteps * jobChunks * float64(usual))
		}
		return pause
	}
}

func newTrainer(comm *collective.Comm) (*step.Trainer, error) {
	c := new(config.Config)
	c.Data.Train, c.Data.Header, c.Label.Field = []string{"generated"}, true, "label"
	c.Model.EmbeddingDim, c.Model.Hidden = 4, []int{16}
	var columns []encode.SparseColumn
	for f := range jobFields {
		name := fmt.Sprintf("c%d", f)
		c.Features = append(c.Features, schema.Feature{Name: name, Field: name, Encode: "id"})
		columns = append(columns, encode.SparseColumn{Name: name, Table: name, Wide: true, Deep: true})
	}
	c.Fill()
	return step.NewTrainer(comm, trace.New(0), c, layout.New(c, columns, nil), step.Tables{})
}

// rows holds a few microbatches that are used repeatedly, so that generating them takes no
// time in steps.
type rows [jobBatches]*encode.Batch

const jobBatches = 8

func newRows(rank int) *rows {
	s, rng := new(rows), rand.New(rand.NewPCG(uint64(rank), 1))
	for k := range s {
		b := &encode.Batch{Rows: jobRows, Label: make([]float32, jobRows), RowID: make([]uint64, jobRows), Sparse: make([]encode.Jagged, jobFields)}
		for f := range b.Sparse {
			b.Sparse[f] = encode.Jagged{Values: make([]uint64, jobRows), Offsets: make([]int32, jobRows+1)}
		}
		for i := range jobRows {
			b.RowID[i], b.Label[i] = uint64((rank*jobBatches+k)*jobRows+i), float32(rng.IntN(2))
			for f := range b.Sparse {
				b.Sparse[f].Values[i], b.Sparse[f].Offsets[i+1] = uint64(rng.IntN(jobVocabulary)), int32(i+1)
			}
		}
		s[k] = b
	}
	return s
}

func (s *rows) Batch(n int64) (*encode.Batch, error) { return s[n%jobBatches], nil }

func (*rows) Done(int64) {}

// Validate returns all errors in a job on the given number of ranks.
func (job Job) Validate(ranks int) error {
	var errs []error
	if ranks < 1 || ranks > MaxRanks || job.Steps < 0 || job.Steps > 1<<20 {
		errs = append(errs, fmt.Errorf("straggler: job: %d ranks and %d steps are not within 1 … %d and 1 … %d", ranks, job.Steps, MaxRanks, 1<<20))
	}
	if !(job.StallShare >= 0 && job.StallShare <= 1) || job.Compute < 0 {
		errs = append(errs, fmt.Errorf("straggler: job: a share %v of stalls, and microbatches of %v", job.StallShare, job.Compute))
	}
	return errors.Join(append(errs, job.Tolerance.Validate(new(config.Config), ranks))...)
}

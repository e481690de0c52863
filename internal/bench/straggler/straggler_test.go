// Package straggler measures what slow ranks cost: it runs the trainer's own steps on
// goroutines as ranks over a modelled network, in virtual time.
package straggler

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/simnet"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/slots"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/train/chaos"
	"github.com/wdlrun/wdlrun/trace"
)

// job is a training with the real step code whose ranks are slow deliberately. A rank sleeps
// for the modelled time of a microbatch.
type job struct {
	tolerance step.Tolerance // zero: plain steps, which wait
	steps     int64          // measured steps
	seed      uint64

	// A microbatch stalls with probability stallShare. The stall is exponentially
	// distributed with a mean of stallSteps undisturbed microbatches.
	stallShare float64

	faults func(rank int) *chaos.Injector // nil: none
}

// measured is the result of a job.
type measured struct {
	SamplesPerSecond float64  `json:"samples_per_second"`
	LateSlots        int64    `json:"late_slots"`
	CommittedSamples int64    `json:"committed_samples"`
	Ranks            int      `json:"np"`
	Mode             string   `json:"mode"`
	Backup           int      `json:"backup"`
	Steps            int64    `json:"steps"`
	Seconds          float64  `json:"seconds"`
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
	jobCompute    = 10 * time.Millisecond // of an undisturbed microbatch
)

// network is the modelled network: one rank per host, 25 Gbit/s.
var network = simnet.Model{Latency: 10 * time.Microsecond, BytesPerSecond: 25e9 / 8, Overhead: 60}

// simulated runs a job in virtual time.
func simulated(t *testing.T, ranks int, j job) (m measured) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var all sync.WaitGroup
		for r, transport := range simnet.New(ranks, 2, network) {
			comm := collective.New(transport)
			all.Go(func() {
				got, err := j.measure(comm)
				if err != nil {
					t.Error(err)
					comm.Abort(err)
				}
				if r == 0 {
					m = got
				}
			})
		}
		all.Wait()
	})
	return m
}

// measure runs a job on the ranks of comm. All ranks call it with the same job.
func (j job) measure(comm *collective.Comm) (measured, error) {
	m := measured{Ranks: comm.Size(), Mode: j.tolerance.Mode.String(), Backup: j.tolerance.Backup, Steps: j.steps}
	trainer, err := newTrainer(comm)
	if err != nil {
		return m, err
	}
	defer trainer.Close()
	trainer.SimulateDelay(j.delays(comm.Rank()))
	take, end, err := j.stepper(trainer, comm, &m)
	if err != nil {
		return m, err
	}
	defer end()
	var start time.Time
	for n := int64(1); n <= jobWarm+j.steps; n++ {
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
func (j job) stepper(trainer *step.Trainer, comm *collective.Comm, m *measured) (take func(n int64) (rows int64, late int, err error), end func(), err error) {
	source := newRows(comm.Rank())
	if j.tolerance.Mode == slots.Wait {
		return func(n int64) (int64, int, error) {
			out, err := trainer.Step(step.Input{N: n, Rate: 1, Batches: source[n%jobBatches:][:1], Next: source[(n+1)%jobBatches:][:1]})
			return out.Rows, 0, err
		}, func() {}, nil
	}
	queue := step.Microbatches(0, 2*(jobWarm+j.steps), comm.Size()) // longer than the job
	say := func(line string) { m.Notes = append(m.Notes, line) }
	x, err := trainer.Tolerate(j.tolerance, slots.Record{Queue: queue}, source, say)
	if err != nil {
		return nil, nil, err
	}
	return func(n int64) (int64, int, error) {
		out, err := trainer.Step(step.Input{N: n, Rate: 1})
		r := x.Record()
		m.Backup = x.Backup()
		return out.Rows, r.Leased - len(r.Pieces), err
	}, x.Close, nil
}

// delays returns the function that makes a rank as slow as the job demands.
func (j job) delays(rank int) func(step int64, took time.Duration) time.Duration {
	rng := rand.New(rand.NewPCG(j.seed, uint64(rank)))
	var faults *chaos.Injector
	if j.faults != nil {
		faults = j.faults(rank)
	}
	start := time.Now()
	return func(step int64, _ time.Duration) time.Duration {
		const usual = jobCompute / jobChunks
		pause := usual
		if faults != nil {
			stop, _ := faults.Stop(step, time.Since(start))
			pause += stop + time.Duration((faults.Slow(step, time.Since(start))-1)*float64(usual))
		}
		if rng.Float64()*jobChunks < j.stallShare {
			pause += time.Duration(rng.ExpFloat64() * stallSteps * float64(jobCompute))
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

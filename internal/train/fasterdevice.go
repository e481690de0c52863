package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/trace"
)

// measured is the message of a rank with the measured times of its steps.
type measured struct {
	CPU, GPU float64 // median seconds
	Fault    string  // why the rank cannot use a GPU
}

const (
	// maxMeasured is the largest size of the message, in bytes.
	maxMeasured = 4 << 10
	// A rank measures at least minSteps steps on each device, and more until measuringTime is
	// over.
	minSteps, measuringTime = 5, time.Second
	// firstSteps is the number of steps that are not measured: they insert rows and allocate.
	firstSteps = 2
	// measuredKeys is the number of keys of each feature.
	measuredKeys = 1 << 16
)

// fasterDevice reports whether steps are faster on GPUs. All ranks call it, and the result is
// the same on all.
func (r *run) fasterDevice(l layout.Layout) (gpu bool, err error) {
	own, err := r.measure(l)
	if err != nil {
		own.Fault, _, _ = strings.Cut(strings.TrimPrefix(err.Error(), "train.device: gpu: "), "\n")
		own.Fault = own.Fault[:min(len(own.Fault), maxMeasured/8)] // JSON may need 6 bytes for one
	}
	b, err := json.Marshal(own)
	if err != nil {
		return false, err
	}
	messages, err := collective.AllGatherBytes(r.Comm, b, maxMeasured)
	if err != nil {
		return false, err
	}
	all := make([]measured, len(messages))
	for i, b := range messages {
		if err := json.Unmarshal(b, &all[i]); err != nil {
			return false, fmt.Errorf("train: train.device: auto: times of rank %d: %w", i, err)
		}
	}
	gpu, line := faster(all)
	r.Say("train.device: auto: " + line)
	return gpu, nil
}

// faster compares the slowest ranks, because a step ends when all ranks have ended it. line
// describes the result.
func faster(all []measured) (gpu bool, line string) {
	var cpu, device float64
	for i, m := range all {
		if m.Fault != "" {
			return false, fmt.Sprintf("the CPU computes: rank %d: %s", i, m.Fault)
		}
		cpu, device = max(cpu, m.CPU), max(device, m.GPU)
	}
	long := func(seconds float64) time.Duration {
		return time.Duration(seconds * float64(time.Second)).Round(time.Microsecond)
	}
	if device < cpu {
		return true, fmt.Sprintf("GPUs compute: a step takes %v, on the CPU %v (%.1f times as long)", long(device), long(cpu), cpu/device)
	}
	return false, fmt.Sprintf("the CPU computes: a step takes %v, on GPUs %v (%.1f times as long)", long(cpu), long(device), device/cpu)
}

// measure measures steps of this rank without the other ranks, with the job's model and batch
// size and random samples of one key per feature.
func (r *run) measure(l layout.Layout) (m measured, err error) {
	if r.opt.Devices == nil {
		return m, errors.New("this program was built without support for GPUs; -device gpu prints what is missing")
	}
	c := *r.config
	c.Train.Slots, c.Train.Mode, c.Train.Backup = 0, "wait", 0
	l.Tiers = make([]config.Tier, len(l.Tiers)) // no files
	var trainers [2]*step.Trainer
	for i := range trainers {
		t, failed := step.NewTrainer(collective.New(mem.New(1, 2)[0]), trace.New(0), &c, l, step.Tables{})
		if failed != nil {
			return m, failed
		}
		defer func() { err = errors.Join(err, t.Close()) }()
		trainers[i] = t
	}
	err = trainers[1].ComputeOn(false, func(a *dense.Arena) (step.Device, error) { return r.opt.Devices.Try(a, &c, l) })
	if err != nil {
		return m, err
	}
	rows := max(c.Train.Global(r.Comm.Size())/r.Comm.Size(), 1)
	batches := []*encode.Batch{randomBatch(&c, l, rows, 0), randomBatch(&c, l, rows, 1)}
	var took [2][]float64
	began := time.Now()
	for n := 0; n < firstSteps+minSteps || time.Since(began) < measuringTime; n++ {
		for i, t := range trainers { // by turns
			at := time.Now()
			// The rate is so low that the loss stays finite.
			if _, err := t.Step(step.Input{N: int64(n) + 1, Rate: 1e-9, Batches: batches[n%2:][:1]}); err != nil {
				return m, err
			}
			if n >= firstSteps {
				took[i] = append(took[i], time.Since(at).Seconds())
			}
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	return measured{CPU: took[0][len(took[0])/2], GPU: took[1][len(took[1])/2]}, nil
}

// randomBatch returns samples of a model's shape.
func randomBatch(c *config.Config, l layout.Layout, rows int, seed uint64) *encode.Batch {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := &encode.Batch{Rows: rows, Labels: make([][]float32, len(c.Labels))}
	for range l.Features {
		j := encode.Jagged{Offsets: []int32{0}}
		for i := range rows {
			j.Values, j.Offsets = append(j.Values, rng.Uint64N(measuredKeys)), append(j.Offsets, int32(i+1))
		}
		b.Sparse = append(b.Sparse, j)
	}
	for i := range rows {
		b.RowID, b.Label = append(b.RowID, uint64(i)), append(b.Label, float32(i%2))
		for range l.Dense {
			b.Dense = append(b.Dense, rng.Float32())
		}
		for t := range b.Labels {
			b.Labels[t] = append(b.Labels[t], float32(i%2))
		}
		if c.Weighted() {
			b.Weight = append(b.Weight, 1)
		}
	}
	return b
}

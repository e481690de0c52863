//go:build gpu

package device

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/device/parity"
	"github.com/wdlrun/wdlrun/internal/model/slots"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/trace"
)

// batches is the step.Source of one rank.
type batches []*encode.Batch

func (b batches) Batch(n int64) (*encode.Batch, error) { return b[n], nil }
func (batches) Done(int64)                             {}

// late is a training on several ranks with a slow rank 1. Rank 0 stores the result.
type late struct {
	gpu    bool
	how    step.Tolerance // the zero value waits
	replay []slots.Record

	log   []slots.Record
	late  int
	loss  []float64
	saved []byte    // the dense parameters and their state
	eval  []float32 // logits of rank 0 in an evaluation at the end
}

func (r *late) train(size, steps int) error {
	c, l := parity.Model(func(c *config.Config) {
		c.Model.Dropout, c.Train.ClipNorm, c.Train.Optimizer.Dense = .1, 1, optim.Rule{Kind: "adam", LearningRate: .01}
	})
	return mem.Run(size, 2, func(comm *collective.Comm) (err error) {
		t, err := step.NewTrainer(comm, trace.New(0), c, l, step.Tables{Start: -.5})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, t.Close()) }()
		if r.gpu {
			if err := t.ComputeOn(!r.how.Off(), func(a *dense.Arena) (step.Device, error) { return openFor(a, comm.Rank(), c, l) }); err != nil {
				return err
			}
		}
		if comm.Rank() == 1 && r.replay == nil {
			t.SimulateDelay(func(step int64, _ time.Duration) time.Duration { return time.Duration(step%2) * 40 * time.Millisecond })
		}
		all := parity.Batches(c, comm.Rank(), steps)
		x, err := r.tolerate(t, all, size)
		if err != nil {
			return err
		}
		if x != nil {
			defer x.Close()
		}
		for n := range steps * size { // with Drop, more steps of fewer microbatches
			next := step.Input{N: int64(n) + 1, Rate: 1}
			if x == nil {
				next.Batches = all[n:][:1]
			}
			out, err := t.Step(next)
			if err != nil {
				return fmt.Errorf("step %d: %w", n+1, err)
			}
			if comm.Rank() == 0 {
				r.note(out, x)
			}
			if x == nil && n+1 == steps || x != nil && x.Ended() {
				break
			}
		}
		return r.end(t, comm.Rank(), all[0])
	})
}

func (r *late) tolerate(t *step.Trainer, all batches, size int) (*step.Tolerant, error) {
	record := slots.Record{Queue: step.Microbatches(0, int64(len(all)), size)}
	switch {
	case r.how.Off():
		return nil, nil
	case r.replay != nil:
		return t.Replay(r.how, record, r.replay, all)
	}
	return t.Tolerate(r.how, record, all, nil)
}

// note records a step on rank 0.
func (r *late) note(out step.Outcome, x *step.Tolerant) {
	r.loss = append(r.loss, out.Mean())
	if x != nil {
		record := x.Record()
		record.Pieces = slices.Clone(record.Pieces)
		r.log, r.late = append(r.log, record), r.late+len(record.Queue.Late)
	}
}

// end evaluates a batch of each rank and stores the result of rank 0.
func (r *late) end(t *step.Trainer, rank int, b *encode.Batch) error {
	next := []*encode.Batch{b, nil}
	_, err := t.Evaluate(func() (*encode.Batch, error) { of := next[0]; next = next[1:]; return of, nil })
	if err != nil || rank != 0 {
		return err
	}
	r.eval = slices.Clone(t.Logits())
	var saved bytes.Buffer
	err = t.SaveDense(&saved)
	r.saved = saved.Bytes()
	return err
}

// difference returns the greatest one of losses and logits.
func (r *late) difference(want *late) (d parity.Difference) {
	for i, x := range r.loss {
		d.Consider(x, want.loss[i], func() string { return fmt.Sprint("loss of step ", i+1) })
	}
	for i, x := range r.eval {
		d.Consider(float64(x), float64(want.eval[i]), func() string { return fmt.Sprint("logit ", i) })
	}
	return d
}

func (r *late) same(want *late) bool {
	return slices.Equal(r.loss, want.loss) && slices.Equal(r.eval, want.eval) && bytes.Equal(r.saved, want.saved)
}

// TestLateRanksOnDevices: with -mode speculate, another rank repeats the microbatches of a slow
// rank, which changes no bit. With -mode drop, a step leaves them out. A replay on devices then
// has the same bits. A replay on the CPU differs by rounding only.
func TestLateRanksOnDevices(t *testing.T) {
	const size, steps = 3, 16
	drop := step.Tolerance{Mode: slots.Drop, Backup: 1}
	wait, again := late{gpu: true}, late{gpu: true, how: step.Tolerance{Mode: slots.Speculate}}
	first := late{gpu: true, how: drop}
	for _, r := range []*late{&wait, &again, &first} {
		fatal.If(t, r.train(size, steps))
	}
	if !again.same(&wait) {
		t.Errorf("speculating, losses %v; waiting %v; or parameters differ", again.loss, wait.loss)
	}
	if first.late == 0 {
		t.Error("no microbatch was late")
	}
	second, cpu := late{gpu: true, how: drop, replay: first.log}, late{how: drop, replay: slices.Clone(first.log)}
	fatal.If(t, second.train(size, steps))
	fatal.If(t, cpu.train(size, steps))
	if !second.same(&first) {
		t.Errorf("replayed, losses %v, want %v; or parameters differ", second.loss, first.loss)
	}
	if d := first.difference(&cpu); d.Relative > tolerance || d.Relative == 0 {
		t.Errorf("compared with the CPU: %v", d)
	}
}

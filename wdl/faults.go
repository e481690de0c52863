package wdl

import (
	"cmp"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/wdlrun/wdlrun/rank/chaos"
)

// faults are those that befall this rank on purpose. The zero value has none.
type faults struct {
	compute, step, disk *chaos.Injector // of the goroutines that ask
	start               time.Time
	end                 func()
}

// befall makes the plan of a text of faults. All ranks draw the same.
func (j *job) befall(text string) error {
	spec, err := chaos.Parse(text)
	if err == nil {
		err = spec.Validate(j.comm.Size())
	}
	if err != nil || len(spec) == 0 {
		return err
	}
	plan := spec.Plan(j.config.Train.Seed, j.comm.Size())
	for _, f := range plan {
		switch {
		case f.Kind == chaos.Cut:
			return fmt.Errorf("chaos: cut: links cannot be cut from inside training: use slow, stop, kill or diskfull")
		case f.Kind == chaos.Kill && j.opt.Kill == nil:
			return fmt.Errorf("chaos: kill: this program has no way to end one rank alone")
		}
	}
	been := kills(plan)
	been = been[:min(max(j.opt.Failures, 0), len(been))]
	rank := j.comm.Rank()
	j.faults = faults{chaos.NewInjector(plan, rank), chaos.NewInjector(plan, rank), chaos.NewInjector(plan, rank), time.Now(), j.opt.Kill}
	j.faults.step.Skip(been...)
	return nil
}

// kills are the numbers of a plan's kills in the order in which steps reach them.
func kills(plan []chaos.Fault) (numbers []int) {
	for i, f := range plan {
		if f.Kind == chaos.Kill {
			numbers = append(numbers, i)
		}
	}
	slices.SortStableFunc(numbers, func(a, b int) int { return cmp.Compare(plan[a].When.Step, plan[b].When.Step) })
	return numbers
}

// hold makes the rank's compute slow, or stand still, when it is to be.
func (f *faults) hold(t *Trainer) {
	if f.compute == nil {
		return
	}
	t.Hold(func(step int64, took time.Duration) time.Duration {
		at := time.Since(f.start)
		pause, _ := f.compute.Stop(step, at)
		return pause + time.Duration((f.compute.Slow(step, at)-1)*float64(took))
	})
}

// kill ends the process if it is to end at the beginning of a step.
func (f *faults) kill(step int64) {
	if f.step.Kill(step, time.Since(f.start)) >= 0 {
		f.end()
	}
}

// diskFull returns the error of a full disk if the checkpoint of a step is to
// meet one.
func (f *faults) diskFull(step int64) error {
	if n := f.disk.DiskFull(step, time.Since(f.start)); n >= 0 {
		return fmt.Errorf("wdl: checkpoint of step %d: %w (on purpose: fault %d)", step, syscall.ENOSPC, n)
	}
	return nil
}

// Hold lets f say for how long the rank's compute stands still after each chunk of
// a step, which took so long: it models slow machines. Call it before the first
// step.
func (t *Trainer) Hold(f func(step int64, took time.Duration) time.Duration) {
	t.model.hold = f
}

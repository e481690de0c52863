package train

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train/chaos"
	"github.com/wdlrun/wdlrun/rank"
)

// faults injects the planned faults of this rank. The zero value injects none.
type faults struct {
	compute, step, disk *chaos.Injector // one for each goroutine that uses it
	plan                []chaos.Fault
	rank                int
	start               time.Time
	end                 func()
	note                func(number int) // records a fault before it happens
	held                *atomic.Int64    // ns for which compute was paused by injected faults
}

// injected is the list of injected faults in a run directory: the number of ranks for which
// the faults were drawn, and the numbers of the faults so far. A job that restarts, possibly
// on fewer ranks, skips these faults. In the file:
//
//	ranks 3
//	0 kill:2@step100
type injected struct {
	Ranks int
	Been  []int
}

// readInjected reads the list from a run directory.
func readInjected(dir string) (s injected, err error) {
	s, _, err = readFaults(dir)
	return s, err
}

// InjectedFaults returns the faults that were injected in a run, in the order in which they
// happened.
func InjectedFaults(runDir string) ([]chaos.Fault, error) {
	_, been, err := readFaults(runDir)
	return been, err
}

func readFaults(dir string) (s injected, been []chaos.Fault, err error) {
	path := filepath.Join(dir, rundir.FileChaos)
	b, err := regular.ReadFile(path, rundir.MaxFile)
	if err != nil {
		return s, nil, err
	}
	for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		if i == 0 {
			_, err = fmt.Sscanf(line, "ranks %d", &s.Ranks)
		} else {
			number, text, _ := strings.Cut(line, " ")
			n, err1 := strconv.Atoi(number)
			f, err2 := chaos.Parse(text)
			if err = errors.Join(err1, err2); err == nil {
				s.Been, been = append(s.Been, n), append(been, f...)
			}
		}
		if err != nil || s.Ranks < 1 || len(s.Been) > chaos.MaxFaults*rank.MaxSize {
			return s, nil, fmt.Errorf("%s: line %d: %q", path, i+1, line)
		}
	}
	return s, been, nil
}

// addInjected records in a run directory that a fault happens, unless another rank has done
// so: a cut link is recorded by both of its ends.
func addInjected(dir string, n int, f chaos.Fault) (err error) {
	file, err := regular.OpenFile(filepath.Join(dir, rundir.FileChaos), os.O_APPEND|os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	rundir.WaitAlone(file)
	if s, err := readInjected(dir); err == nil && slices.Contains(s.Been, n) {
		return nil
	}
	_, err = fmt.Fprintf(file, "%d %v\n", n, chaos.Spec{f})
	return err
}

// draw draws the faults of a -chaos text. All ranks draw the same faults. Faults that were
// injected before are skipped.
func (f *faults) draw(text string, before injected, seed uint64, rank int, runDir string, o *Options) error {
	spec, err := chaos.Parse(text)
	if err == nil {
		err = spec.Validate(before.Ranks)
	}
	if err != nil || len(spec) == 0 {
		return err
	}
	plan := spec.Plan(seed, before.Ranks)
	if o.Kill == nil && slices.ContainsFunc(plan, func(f chaos.Fault) bool { return f.Kind == chaos.Kill }) {
		return fmt.Errorf("chaos: kill: this program cannot end a single rank")
	}
	*f = faults{chaos.NewInjector(plan, rank), chaos.NewInjector(plan, rank), chaos.NewInjector(plan, rank), plan, rank, time.Now(), o.Kill, nil, f.held}
	f.skip(before)
	f.note = func(n int) {
		if err := addInjected(runDir, n, plan[n]); err != nil {
			o.Warn(fmt.Sprintf("injected fault %d may come again after a restart: %v", n, err))
		}
		if plan[n].Kind == chaos.Kill { // to the other ranks it looks like a rank that ran out of memory
			o.Warn(fmt.Sprintf("this rank is killed by injected fault %d (%v)", n, chaos.Spec{plan[n]}))
		}
	}
	return nil
}

// skip skips faults that were injected before.
func (f *faults) skip(before injected) {
	for _, in := range []*chaos.Injector{f.compute, f.step, f.disk} {
		in.Skip(before.Been...)
	}
}

// notInjected describes the planned faults that are not among those injected before the job ended
// after a step. It returns "" if there are none.
func (f *faults) notInjected(been []int, step int64) string {
	const shown = 8
	missed := chaos.Missed(f.plan, been, step, time.Since(f.start))
	if len(missed) == 0 {
		return ""
	}
	text := missed[:min(len(missed), shown)].String()
	if n := len(missed) - shown; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("chaos: %s was not injected: the job ended at step %d", text, step)
}

// slowDown makes the trainer slow down or pause the compute of this rank as planned.
func (f *faults) slowDown(t *step.Trainer) {
	if f.compute == nil {
		return
	}
	t.SimulateDelay(func(step int64, took time.Duration) time.Duration {
		at := time.Since(f.start)
		pause, n := f.compute.Stop(step, at)
		if n >= 0 {
			f.note(n)
		}
		pause += time.Duration((float64(f.compute.Slow(step, at)) - 1) * float64(took))
		f.held.Add(int64(pause))
		return pause
	})
}

// inject ends the process or cuts a link of it if a fault is planned for the beginning of a
// step.
func (f *faults) inject(step int64) error {
	at := time.Since(f.start)
	if n := f.step.Kill(step, at); n >= 0 {
		f.note(n)
		f.end()
	}
	if peer, n := f.step.Cut(step, at); n >= 0 {
		f.note(n)
		return &collective.LostError{Rank: peer, By: f.rank, Cause: fmt.Errorf("the link is cut by injected fault %d", n)}
	}
	return nil
}

// diskFull returns the error of a full disk if that fault is planned for the checkpoint of a
// step.
func (f *faults) diskFull(step int64) error {
	n := f.disk.DiskFull(step, time.Since(f.start))
	if n < 0 {
		return nil
	}
	f.note(n)
	return fmt.Errorf("%w (injected fault %d)", syscall.ENOSPC, n)
}

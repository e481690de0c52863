package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/sweep"
	"github.com/wdlrun/wdlrun/internal/train/input"
)

const (
	surveyDir = "surveys"
	trialLog  = "train.log"
)

// trainings starts the trainings of a sweep, as processes.
type trainings struct {
	s    *sweeping
	self string
	np   int

	mu      sync.Mutex
	surveys map[string]chan struct{} // by name: closed when a training has written the survey or has ended
}

func newTrainings(s *sweeping, np int) (*trainings, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("the path of the program is unknown: %w", err)
	}
	return &trainings{s: s, self: self, np: np, surveys: map[string]chan struct{}{}}, command.MakeFolder(filepath.Join(s.dir, surveyDir))
}

// train runs a job of the sweep: the training starts, or resumes from its last checkpoint.
func (a *trainings) train(ctx context.Context, j sweep.Job) (x sweep.Outcome, err error) {
	t := a.s.Trials[j.Trial]
	c, err := a.s.config(t)
	if err != nil {
		return x, err
	}
	c.Fill()
	x = sweep.Outcome{Rung: j.Rung, Epochs: a.s.Options.Rungs()[j.Rung], Repeat: j.Repeat, Seed: c.Train.Seed + uint64(j.Repeat), Run: fmt.Sprintf("trial-%04d", t.Number)}
	if a.s.Options.Method != sweep.ASHA {
		x.Epochs = c.Train.Epochs
	}
	args := []string{"-np", fmt.Sprint(a.np), "train", "-config", filepath.Join(a.s.dir, sweepBase), "-survey", filepath.Join(a.s.dir, surveyDir), "-tag", x.Run}
	for _, set := range t.Settings {
		args = append(args, "-set", set.Key+"="+set.Value)
	}
	if a.s.Options.Method == sweep.ASHA {
		args = append(args, "-set", fmt.Sprintf("train.epochs=%d", x.Epochs))
	}
	if a.s.Options.Repeats > 1 {
		x.Run += fmt.Sprintf("-seed-%d", x.Seed)
		args = append(args, "-set", fmt.Sprintf("train.seed=%d", x.Seed))
		c.Train.Seed = x.Seed
	}
	dir := filepath.Join(a.s.dir, x.Run)
	if err := command.MakeFolder(dir); err != nil {
		return x, fmt.Errorf("sweep: %w", err)
	}
	end, err := a.waitTurn(ctx, input.SurveyName(c))
	if err != nil {
		return x, err
	}
	defer end()
	began := time.Now()
	output, err := a.process(ctx, dir, append(args, "-into", dir))
	if ctx.Err() != nil {
		return x, context.Cause(ctx) // it has written a checkpoint
	}
	x.Seconds = time.Since(began).Seconds()
	if err != nil {
		x.Error = fmt.Sprintf("%s (%s)", reason(dir, output, err), filepath.Join(x.Run, trialLog))
		return x, nil
	}
	a.read(dir, &x)
	return x, nil
}

// waitTurn waits while another training surveys the same data, so that data is scanned once.
func (a *trainings) waitTurn(ctx context.Context, name string) (end func(), err error) {
	a.mu.Lock()
	other := a.surveys[name]
	if other == nil {
		mine := make(chan struct{})
		a.surveys[name] = mine
		a.mu.Unlock()
		var once sync.Once
		end = func() { once.Do(func() { close(mine) }) }
		go func() { // the survey exists long before the training ends
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for {
				if _, err := os.Stat(filepath.Join(a.s.dir, surveyDir, name)); err == nil {
					end()
				}
				select {
				case <-mine:
					return
				case <-tick.C:
				}
			}
		}()
		return end, nil
	}
	a.mu.Unlock()
	select {
	case <-other:
		return func() {}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// process runs a training in a separate process group: Ctrl-C goes to the sweep, which
// stops each training once. Its output goes to a file; output is the end of it.
func (a *trainings) process(ctx context.Context, dir string, args []string) (output []byte, err error) {
	log, err := regular.OpenFile(filepath.Join(dir, trialLog), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	from, err := log.Seek(0, 2)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, a.self, args...)
	cmd.Stdout, cmd.Stderr = log, log
	command.Separate(cmd)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = command.StopWithin
	err = cmd.Run()
	end, seek := log.Seek(0, 2)
	if seek == nil {
		output = make([]byte, min(end-from, 1<<16))
		n, _ := log.ReadAt(output, end-int64(len(output)))
		output = output[:n]
	}
	return output, err
}

// reason returns the first line of the verdict that a failed training wrote to its run
// directory; without one, the last line of its output that begins with wdlrun.
func reason(dir string, output []byte, err error) string {
	if r, err := runs.Read(dir); err == nil && r.Failure != "" {
		return command.Clean(r.Failure, 300)
	}
	text := err.Error()
	for line := range bytes.Lines(output) {
		if rest, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("wdlrun: ")); ok {
			text = string(rest)
		}
	}
	return command.Clean(strings.TrimSpace(text), 300)
}

// read reads the metrics of a finished training from its run directory.
func (a *trainings) read(dir string, x *sweep.Outcome) {
	r, err := runs.Read(dir)
	if err == nil && (r.Result == nil || r.Result.Valid == nil) {
		err = errors.New("it has no result with validation metrics")
	}
	if err != nil {
		x.Error = err.Error()
		return
	}
	of := func(m *runs.Metrics) map[string]float64 {
		all := map[string]float64{}
		for _, col := range runs.Columns() {
			if v := col.Value(m); !math.IsNaN(v) {
				all[col.Name] = v
			}
		}
		return all
	}
	x.Valid, x.Test, x.Best = of(r.Result.Valid), of(r.Result.Test), r.Result.BestEpoch
	if _, has := x.Valid[a.s.Options.Metric]; !has {
		x.Error = "the validation data has no " + a.s.Options.Metric
	}
}

package data

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/inspect"
)

// tryCrosses trains on the sampled rows with and without the rates and the crosses found, and sets the
// result in crosses. The scan cannot see what the deep part learns of a pair by
// itself; a training can.
func tryCrosses(ctx context.Context, seen *inspect.Inspection, crosses *config.Crosses, followed bool) {
	const limit = 5 * time.Minute // seconds are usual; a busy machine must not change the proposal
	ctx, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("they took longer than %v", limit))
	defer stop()
	sample, format := seen.Sample()
	switch {
	case followed:
		crosses.Untried(", because these files are followed")
		return
	case sample == nil:
		crosses.Untried(", because records hold numbers of features, or lists with missing elements")
		return
	}
	dir, err := os.MkdirTemp("", "wdlrun-init-")
	if err == nil {
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "sample."+format)
		if err = writeNew(path, sample); err == nil {
			err = tryIn(ctx, dir, seen.Sampled(path, format), crosses)
		}
	}
	if err != nil {
		crosses.Untried(fmt.Sprintf(" (%.100q)", cmp.Or(context.Cause(ctx), err).Error()))
	}
}

// tryIn is tryCrosses of a sample, with files in dir.
func tryIn(ctx context.Context, dir string, in *inspect.Inspection, crosses *config.Crosses) error {
	all, rates := crosses.Found.Pairs, &crosses.Rates
	ctx, stop := context.WithCancel(ctx)
	t := trials{ctx: ctx, dir: dir, in: in, crosses: crosses, begun: map[string]func() (trial, error){}}
	defer t.running.Wait()
	defer stop()
	try := func(n int) (trial, error) { return t.begin(n)() }
	t.begin(0)
	if len(rates.Columns) > 0 {
		rates.Used = true
		t.begin(0)
		rates.Used = false
	} else {
		t.begin(len(all))
	}
	without, err := try(0)
	if err != nil {
		return err
	}
	if len(rates.Columns) > 0 {
		rates.Used = true
		with, err := try(0)
		if err != nil {
			rates.Used = false
			return err
		}
		what, reason := "confirms", ""
		if rates.Used = with.beats(without); !rates.Used {
			what = "does not confirm"
			if with.loss < without.loss {
				reason = ", which may be chance with so few rows of the rarer label"
			}
		}
		rates.Note = fmt.Sprintf("A short training on these rows %s encode: rate for fields of many values: its validation log-loss is %.4f with them, %.4f without%s.", what, with.loss, without.loss, reason)
		if rates.Used {
			without = with
		}
	}
	if len(all) == 0 {
		return nil
	}
	what, first := "agrees", 0.0 // and the log-loss with all
	for n := len(all); n > 0; n /= 2 {
		with, err := try(n)
		if err != nil {
			return err
		}
		if n == len(all) {
			first = with.loss
		}
		if with.loss <= without.loss {
			if n < len(all) {
				what = fmt.Sprintf("agrees with the first %d", n)
			}
			crosses.Left = len(all) - n
			crosses.Note = fmt.Sprintf("A short training on these rows %s: its validation log-loss is %.4f with them, %.4f without.", what, with.loss, without.loss)
			return nil
		}
	}
	crosses.Left = len(all)
	crosses.Note = fmt.Sprintf("A short training on these rows disagrees, so they are left out: its validation log-loss is %.4f with them, %.4f without.", first, without.loss)
	return nil
}

// trials are short trainings with parts of the crosses and rates found.
type trials struct {
	ctx     context.Context
	dir     string
	in      *inspect.Inspection
	crosses *config.Crosses
	begun   map[string]func() (trial, error)
	running sync.WaitGroup
}

// begin returns a function that waits for the trial with the first n crosses, and with the rates if
// they are used now. If there is more than one CPU, the trial runs meanwhile.
func (t *trials) begin(n int) func() (trial, error) {
	found, rates := *t.crosses.Found, t.crosses.Rates
	found.Pairs = found.Pairs[:n]
	path := filepath.Join(t.dir, fmt.Sprintf("%d%t.yaml", n, rates.Used))
	if t.begun[path] == nil {
		text := config.SuggestWith(t.in, "", &config.Crosses{Found: &found, Rates: rates, IDs: t.crosses.IDs})
		try := sync.OnceValues(func() (trial, error) { return tried(t.ctx, path, text) })
		if runtime.GOMAXPROCS(0) > 1 {
			t.running.Go(func() { try() })
		}
		t.begun[path] = try
	}
	return t.begun[path]
}

// trial is the validation of a short training.
type trial struct {
	loss  float64
	rarer int64 // rows of the rarer class
}

// beats reports whether x is better than y by more than the chance of two trainings explains, which is
// larger the fewer rows of a class there are: docs/design/0020.
func (x trial) beats(y trial) bool {
	const share = 0.1 // of the relative standard error of the number of rows of the rarer class
	return x.loss < y.loss*(1-share/math.Sqrt(float64(max(y.rarer, 1))))
}

// tried trains and returns the validation.
func tried(ctx context.Context, path string, text []byte) (x trial, err error) {
	if err := writeNew(path, text); err != nil {
		return x, err
	}
	self, err := os.Executable()
	if err != nil {
		return x, err
	}
	cmd := exec.CommandContext(ctx, self, "-np", "1", "train", "-config", path, "-out", filepath.Join(filepath.Dir(path), "runs"), "-json",
		"-set", "data.valid_fraction=0.3", "-set", "train.epochs=10", "-set", "train.refit=false")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return x, errors.New(string(lastLine(exit.Stderr)))
	}
	if err != nil {
		return x, err
	}
	var got struct {
		Valid struct {
			LogLoss   float64 `json:"logloss"`
			Samples   int64   `json:"samples"`
			Positives int64   `json:"positives"`
		} `json:"valid"`
	}
	if err := json.Unmarshal(lastLine(out), &got); err != nil || got.Valid.LogLoss == 0 {
		return x, fmt.Errorf("no validation log-loss: %w", err)
	}
	v := got.Valid
	return trial{v.LogLoss, min(v.Positives, v.Samples-v.Positives)}, nil
}

func lastLine(b []byte) []byte {
	b = bytes.TrimSpace(b)
	return b[bytes.LastIndexByte(b, '\n')+1:]
}

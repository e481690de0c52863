package train

import (
	"context"
	"errors"
	"os"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/plan"
	"github.com/wdlrun/wdlrun/internal/train/convert"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/trace"
)

// Estimate plans a training on the given number of ranks in this process, without training. It
// reads the data once to fit the encodings, then a sample. shared reports whether the ranks
// will share memory.
func Estimate(ctx context.Context, o Options, ranks int, shared bool) (*plan.Plan, error) {
	from, err := o.openCheckpoint()
	if err != nil {
		return nil, err
	}
	c, _, err := o.config(from)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(o.checkCombination(c, ranks), checkVectors(from, c)); err != nil {
		return nil, err
	}
	if c.Data.Follow.On {
		return nil, errors.New("plan: data.follow: a stream has no whole to plan from: name its files so far in data.train, without data.follow")
	}
	if o.Tolerance, err = o.Tolerance.Of(c); err != nil {
		return nil, err
	}
	r := &run{settings: settings{config: c}}
	r.init(collective.New(mem.New(1, 1)[0]), trace.New(1), o)
	if o.From != "" {
		find := findSource
		if convert.Is(o.From) {
			tmp, err := os.MkdirTemp("", "wdlrun-source-")
			if err != nil {
				return nil, err
			}
			defer os.RemoveAll(tmp)
			find = func(ctx context.Context, path string, _ func(string)) (string, error) {
				return convertSource(ctx, path, tmp, c, false, r.opt.Say)
			}
		}
		dir, err := find(ctx, o.From, r.opt.Warn)
		if err == nil {
			r.source, err = openSource(dir)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := r.survey(ctx, from); err != nil {
		return nil, err
	}
	if r.source != nil {
		if err := (taking{r}).describe(); err != nil {
			return nil, err
		}
	}
	if err := r.in.SurveyOthers(ctx); err != nil {
		return nil, err
	}
	g, err := r.planInputs(from, ranks, ranks > 1 && shared, save.EnoughKeys)
	if err != nil {
		return nil, err
	}
	p, err := plan.Estimate(ctx, c, r.in.Encoder, r.in.Train, ranks, g)
	if err != nil || !c.Train.MayUseGPU() || o.Devices == nil {
		return p, err
	}
	parts := ranks
	if c.Train.Slots > 0 {
		parts = c.Train.Slots
	}
	rows := (c.Train.Global(ranks) + parts - 1) / parts
	p.Device, err = o.Devices.Need(c, layout.New(c, r.in.Encoder.Sparse(), r.in.Encoder.Dense()), rows)
	if c.Train.Device == "auto" {
		err = nil // the CPU may compute
	}
	return p, err
}

package train

import (
	"errors"
	"math"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/trace"
)

// newTrainer makes the trainer with the owners and strategies of the plan. left, if not nil,
// holds the tables of a previous group.
func (r *run) newTrainer(left *step.Left) (*step.Trainer, error) {
	r.Rec.Enter(trace.Build)
	begin := step.Tables{Left: left, Start: baseLogit(r.in, r.config)}
	if p := r.planned; p != nil {
		begin.Owner, begin.Strategies = p.Owner, p.Strategies()
	}
	l := layout.New(r.config, r.in.Encoder.Sparse(), r.in.Encoder.Dense())
	t, err := step.NewTrainer(r.Comm, r.Rec, r.config, l, begin)
	if err == nil {
		if err = r.useDevice(t, l); err != nil {
			return nil, err
		}
	}
	if err == nil && r.in.Valid != nil {
		r.countGradients(t.Store())
	}
	if err == nil && r.in.Train != nil {
		startAtMeans(t, r.in.Train, input.SchemaOf(r.config))
	}
	return t, err
}

// baseLogit returns the initial output of a new model: the logit of the label's mean. It
// returns 0 for a stream, whose labels are not known yet, and for a label that is a number.
func baseLogit(in *input.Input, c *config.Config) float64 {
	if in.Train == nil || c.Label.IsNumber() {
		return 0
	}
	rows, ones := float64(in.Train.Rows(data.All)), float64(in.Train.Positives())
	return math.Log((ones + 0.5) / (rows - ones + 0.5)) // finite if there is one class only
}

// startAtMeans sets the initial output of a new model so that it predicts the mean of each
// label that is a number or follows the first label.
func startAtMeans(t *step.Trainer, d *data.Dataset, labels schema.Schema) {
	means, known := d.LabelMeans()
	for i, mean := range means {
		l, rows := &labels.All()[i], float64(known[i])
		switch {
		case l.IsPoisson():
			t.Start(i, math.Log(max(mean, 1/(rows+1)))) // finite if all counts are 0
		case l.IsNumber():
			t.Start(i, mean)
		case i > 0:
			ones := float64(mean * rows)
			t.Start(i, math.Log((ones+0.5)/(rows-ones+0.5))) // finite if there is one class only
		}
	}
}

// useDevice makes a new trainer compute on the device of its rank if the configuration asks
// for one. All ranks have the configuration of rank 0.
func (r *run) useDevice(t *step.Trainer, l layout.Layout) (err error) {
	use := r.config.Train.Device == "gpu"
	if r.config.Train.Device == "auto" {
		use, err = r.fasterDevice(l)
	}
	switch {
	case err != nil:
	case !use:
		return nil
	case r.opt.Devices == nil:
		err = ErrNoDevices
	default:
		err = t.ComputeOn(!r.opt.Tolerance.Off(), func(a *dense.Arena) (_ step.Device, err error) {
			var lines []string
			r.device, lines, err = r.opt.Devices.Open(a, r.config, l)
			for _, line := range lines {
				r.Say(line)
			}
			return r.device, err
		})
	}
	if err != nil {
		return errors.Join(err, t.Close())
	}
	return nil
}

// leaveDevices ends sums between devices. All ranks call it after the last step.
func (r *run) leaveDevices() {
	if r.device != nil {
		r.device.End()
	}
}

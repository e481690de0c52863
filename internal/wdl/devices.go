package wdl

import (
	"errors"
	"fmt"
	"strings"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/wdl/config"
	"github.com/wdlrun/wdlrun/internal/wdl/layout"
	"github.com/wdlrun/wdlrun/internal/wdl/step"
)

// Devices gives access to the GPUs of a machine.
type Devices interface {
	// Check returns an error if this number of ranks cannot train the configuration on the
	// devices of this machine.
	Check(c *config.Config, ranks int) error
	// Try opens the device of this rank for the arena of a model that only this rank trains.
	Try(a *dense.Arena, c *config.Config, l layout.Layout) (step.Device, error)
	// Open opens the device of this rank for the arena of a model. All ranks call it. lines
	// describe the choice of devices and how gradients are summed, if there was a choice.
	Open(a *dense.Arena, c *config.Config, l layout.Layout) (d step.Device, lines []string, err error)
}

// ErrNoDevices is the error of a training on GPUs in a build without the tag gpu.
var ErrNoDevices = errors.New("train.device: gpu: this program was built without support for GPUs; use one that was built by: CGO_ENABLED=1 go build -tags gpu -o wdlrun-gpu ./cmd/wdlrun")

// hasDevices returns an error if the ranks of this machine cannot use the device that the
// configuration names.
func (o Options) hasDevices(c *config.Config) error {
	switch {
	case !c.Train.MayUseGPU() && len(o.OnGPU) > 0:
		return fmt.Errorf("no effect without train.device: gpu: %s: give -device gpu too", strings.Join(o.OnGPU, " and "))
	case !c.Train.MayUseGPU():
		return nil
	case o.Devices == nil:
		return ErrNoDevices
	case c.Train.Device == "auto":
		return nil // the ranks find out
	}
	return o.Devices.Check(c, o.Here)
}

// NoDevices is a machine without GPUs. Reason is the error of all methods.
type NoDevices struct{ Reason error }

// Check implements Devices.
func (d NoDevices) Check(*config.Config, int) error { return d.Reason }

// Try implements Devices.
func (d NoDevices) Try(*dense.Arena, *config.Config, layout.Layout) (step.Device, error) {
	return nil, d.Reason
}

// Open implements Devices.
func (d NoDevices) Open(*dense.Arena, *config.Config, layout.Layout) (step.Device, []string, error) {
	return nil, nil, d.Reason
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
		err = t.ComputeOn(func(a *dense.Arena) (_ step.Device, err error) {
			var lines []string
			r.device, lines, err = r.opt.Devices.Open(a, r.config, l)
			for _, line := range lines {
				r.say(line)
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

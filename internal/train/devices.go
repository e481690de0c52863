package train

import (
	"errors"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/plan"
	"github.com/wdlrun/wdlrun/internal/model/step"
)

// Devices gives access to the GPUs of a machine.
type Devices interface {
	// Check returns an error if this number of ranks cannot train the configuration on the
	// devices of this machine.
	Check(c *config.Config, ranks int) error
	// Need returns the memory that a rank needs on its device for batches of this number of rows.
	// It is called without ranks.
	Need(c *config.Config, l layout.Layout, rows int) (*plan.Device, error)
	// Try opens the device of this rank for the arena of a model that only this rank trains.
	Try(a *dense.Arena, c *config.Config, l layout.Layout) (step.Device, error)
	// Open opens the device of this rank for the arena of a model. All ranks call it. lines
	// describe the choice of devices and how gradients are summed, if there was a choice.
	Open(a *dense.Arena, c *config.Config, l layout.Layout) (d step.Device, lines []string, err error)
}

// ErrNoDevices is the error of a training on GPUs in a build without the tag gpu.
var ErrNoDevices = errors.New("train.device: gpu: this program was built without support for GPUs; use one that was built by: CGO_ENABLED=1 go build -tags gpu -o wdlrun-gpu ./cmd/wdlrun")

// NoDevices is a machine without GPUs. Reason is the error of all methods.
type NoDevices struct{ Reason error }

// Check implements Devices.
func (d NoDevices) Check(*config.Config, int) error { return d.Reason }

// Need implements Devices.
func (d NoDevices) Need(*config.Config, layout.Layout, int) (*plan.Device, error) {
	return nil, d.Reason
}

// Try implements Devices.
func (d NoDevices) Try(*dense.Arena, *config.Config, layout.Layout) (step.Device, error) {
	return nil, d.Reason
}

// Open implements Devices.
func (d NoDevices) Open(*dense.Arena, *config.Config, layout.Layout) (step.Device, []string, error) {
	return nil, nil, d.Reason
}

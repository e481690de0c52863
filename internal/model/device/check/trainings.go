//go:build gpu

package check

import (
	"fmt"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/model/device"
	"github.com/wdlrun/wdlrun/internal/model/device/parity"
	"github.com/wdlrun/wdlrun/internal/model/step"
)

const (
	// steps is the number of steps of each training. Batch normalisation amplifies differences: those of
	// deepfm double every 40 steps, from 8e-6 after 50 to 1e-4 after 200, though sums only have another order.
	steps = 50
	// tolerance is of the relative difference after them. A product in TF32 differs by 1e-3.
	tolerance = 1e-4
)

// models are one of each kind that has kernels of its own. None has relu: a sum near 0 may
// have another sign on the device, after which trainings differ more and more.
func models() []func(*config.Config) {
	return []func(*config.Config){
		func(c *config.Config) { c.Model.Activation, c.Model.Dropout, c.Train.ClipNorm = "tanh", .1, .05 },
		func(c *config.Config) { c.Model.Kind, c.Model.Activation, c.Model.BatchNorm = "deepfm", "tanh", true },
		func(c *config.Config) {
			c.Model.Kind, c.Model.CIN, c.Model.Activation = "xdeepfm", []int{5, 3}, "sigmoid"
		},
		func(c *config.Config) {
			c.Model.Kind, c.Model.Activation, c.Model.Cross = "dcn_v2", "tanh", config.Cross{Layers: 3, Rank: 3, Structure: "parallel"}
		},
	}
}

// trainings trains models on the CPU and twice on the device, whose results must have the
// same bits.
func trainings(library *cuda.Library, ordinal int) (is measured, err error) {
	var worst parity.Difference
	for _, change := range models() {
		c, l := parity.Model(change)
		kind := c.Model.Kind
		train := func(use func(*step.Trainer) error) (parity.Trained, error) {
			return parity.Train(collective.New(mem.New(1, 2)[0]), c, l, steps, use)
		}
		onDevice := func(t *step.Trainer) error {
			return t.ComputeOn(false, func(a *dense.Arena) (step.Device, error) {
				on, err := library.Device(ordinal)
				if err != nil {
					return nil, err
				}
				return device.Open(on, a, c, l)
			})
		}
		var all [3]parity.Trained
		for i, use := range []func(*step.Trainer) error{nil, onDevice, onDevice} {
			if all[i], err = train(use); err != nil {
				return is, fmt.Errorf("%s: %w", kind, err)
			}
		}
		d := all[1].Difference(all[0])
		if d.Relative > tolerance {
			return is, fmt.Errorf("%s: after %d steps %v", kind, steps, d)
		}
		if err := all[2].Same(all[1]); err != nil {
			return is, fmt.Errorf("%s: two trainings on the device do not have the same bits: %w", kind, err)
		}
		if d.Relative > worst.Relative {
			worst = d
			worst.Of = kind + ", " + d.Of
		}
	}
	is.values = map[string]float64{"steps": steps, "relative_difference": worst.Relative}
	is.text = fmt.Sprintf("%d models after %d steps: at most %.1e from the CPU (%s), the same bits twice", len(models()), steps, worst.Relative, worst.Of)
	return is, nil
}

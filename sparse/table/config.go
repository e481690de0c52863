package table

import (
	"fmt"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/optim"
)

// Limits of a configuration. They bound what a file or a peer can announce.
const (
	MaxParts  = 16
	MaxDim    = 4096
	MaxShards = 1 << 16
	MaxName   = 255 // bytes of a table's or part's name
)

// Init says what a row holds before its first step.
type Init struct {
	Kind  string  // zero, normal or uniform; empty is zero for dim 1, else normal
	Scale float64 // standard deviation of normal, bound of uniform; 0 means .01
}

// Part is a stretch of a row's values with its own update rule.
type Part struct {
	Name string
	Dim  int
	Rule optim.Rule
	Init Init

	// L2 adds L2·w to the gradient of w. It counts only in steps that touch the
	// row unless DenseL2 is set: then every held row takes an optimizer step in
	// every step, with a zero gradient where the batch gave none, as frameworks
	// with dense embedding gradients do. A row is held from its first step on.
	L2      float64
	DenseL2 bool
}

// Config describes a table: a set of rows of one shape.
type Config struct {
	Name  string
	Parts []Part
}

// Default returns c with every zero option replaced by its default.
func (c Config) Default() Config {
	c.Parts = slices.Clone(c.Parts)
	for i := range c.Parts {
		p := &c.Parts[i]
		p.Rule = p.Rule.Default()
		if p.Init.Kind == "" {
			p.Init.Kind = "normal"
			if p.Dim == 1 {
				p.Init.Kind = "zero"
			}
		}
		if p.Init.Scale == 0 {
			p.Init.Scale = 0.01
		}
	}
	return c
}

// Validate returns every fault of c, none if there is none.
func (c Config) Validate() (faults []error) {
	c = c.Default()
	if len(c.Name) < 1 || len(c.Name) > MaxName {
		faults = append(faults, fmt.Errorf("a name has 1 to %d bytes", MaxName))
	}
	if n := len(c.Parts); n < 1 || n > MaxParts {
		faults = append(faults, fmt.Errorf("%d parts: give 1 to %d", n, MaxParts))
	}
	seen := map[string]bool{}
	for i, p := range c.Parts {
		if seen[p.Name] {
			faults = append(faults, fmt.Errorf("part %d: the name %q is taken", i, p.Name))
		}
		seen[p.Name] = true
		for _, err := range p.validate() {
			faults = append(faults, fmt.Errorf("part %d (%q): %w", i, p.Name, err))
		}
	}
	return faults
}

func (p Part) validate() (faults []error) {
	if len(p.Name) < 1 || len(p.Name) > MaxName {
		faults = append(faults, fmt.Errorf("a name has 1 to %d bytes", MaxName))
	}
	if p.Dim < 1 || p.Dim > MaxDim {
		faults = append(faults, fmt.Errorf("dim %d: give 1 to %d", p.Dim, MaxDim))
	}
	for _, err := range p.Rule.Validate() {
		faults = append(faults, fmt.Errorf("rule: %w", err))
	}
	if k := p.Init.Kind; k != "zero" && k != "normal" && k != "uniform" {
		faults = append(faults, fmt.Errorf("init: kind %q is not one of zero, normal, uniform", k))
	}
	if !(p.Init.Scale >= 0) || p.Init.Scale > math.MaxFloat32/16 {
		faults = append(faults, fmt.Errorf("init: scale %v is not a finite number of at least 0", p.Init.Scale))
	}
	if !(p.L2 >= 0) || p.L2 > math.MaxFloat32 {
		faults = append(faults, fmt.Errorf("L2 %v is not a finite number of at least 0", p.L2))
	}
	return faults
}

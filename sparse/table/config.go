package table

import (
	"fmt"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/optim"
)

// Limits of a configuration. They bound the sizes in a file or in a message of a peer.
const (
	MaxParts  = 16
	MaxDim    = 4096
	MaxShards = 1 << 16
	MaxName   = 255 // bytes of the name of a table or part
)

// Init defines the values of a row before its first step.
type Init struct {
	Kind  string  // zero, normal or uniform; empty is zero for dim 1, else normal
	Scale float64 // standard deviation of normal, bound of uniform; 0 means .01
}

// Part is a range of the values of a row with its own update rule.
type Part struct {
	Name string     // 1 to 255 bytes, distinct within its table; it is part of the seed of initial values
	Dim  int        // values of a row, 1 to 4096
	Rule optim.Rule // the optimizer and its learning rate; zero options have the defaults of [optim.Rule.Default]
	Init Init       // values before the first step; the zero value: zeros if Dim is 1, else normal

	// L2 adds L2·w to the gradient of w. It applies only in steps with a gradient for the
	// row, unless DenseL2 is set. Every held row then takes an optimizer step in every
	// step, with a zero gradient if the batch has none, like in frameworks with dense
	// embedding gradients. A row is held from its first step on and then takes the earlier
	// steps ([Past]).
	L2      float64
	DenseL2 bool
}

// Precisions of a row's values. State is always float32.
const (
	Float32  = "float32"
	BFloat16 = "bfloat16" // half the memory: 8 bits of mantissa, rounded stochastically
)

// Config describes a table: the layout of its rows, and which keys get and lose a row.
type Config struct {
	Name   string
	Parts  []Part
	Values string // Float32 or BFloat16; empty is Float32
	Admit  Admit
	Evict  Evict
}

// Admit defines when a key without a row gets one: in its After'th step with a
// gradient. The row is the initial row after that one step. Gradients of earlier steps
// are dropped. A sketch of Counters bytes over all shards counts occurrences and may
// overcount. When a key loses its row, its count returns to zero. The few keys that
// share a counter with it may then be undercounted.
type Admit struct {
	After    int // 0 and 1: its first; at most 255
	Counters int // 0 means 2²², enough for about a million keys awaiting admission
}

// Evict defines when a row is removed; its key then has no row. Age is counted in steps
// since the row's last gradient. All decisions are made per shard, so they do not
// depend on the number of ranks.
type Evict struct {
	Age int // a row older than this is removed; 0: no limit

	// MaxRows bounds the rows of the table over all ranks after each step; 0: no limit. It
	// is divided among the shards ([Evict.Share]). A shard above its share removes its
	// oldest rows or, with a HalfLife, the rows of the lowest score, until it holds share -
	// share/16. The table then holds at most max(MaxRows, shards) rows. It holds fewer if
	// keys are spread unevenly, because a shard removes rows even if others are below their
	// share.
	MaxRows int

	// HalfLife, in steps, gives each row a score: the number of its gradients, halved at
	// every multiple of HalfLife. 0: rows have no score.
	HalfLife int
	MinScore float64 // a row below this is removed; requires HalfLife

	// Retires says that the caller removes rows by the step of their last gradient
	// ([Table.Retire]), which is then saved with each row.
	Retires bool
}

// Default returns c with every zero option replaced by its default.
func (c Config) Default() Config {
	if c.Values == "" {
		c.Values = Float32
	}
	if c.Admit.After > 1 && c.Admit.Counters == 0 {
		c.Admit.Counters = 1 << 22
	}
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

// Validate returns all errors in c, or nil.
func (c Config) Validate() (faults []error) {
	c = c.Default()
	if len(c.Name) < 1 || len(c.Name) > MaxName {
		faults = append(faults, fmt.Errorf("a name has 1 to %d bytes", MaxName))
	}
	if c.Values != Float32 && c.Values != BFloat16 {
		faults = append(faults, fmt.Errorf("values %q: give %s or %s", c.Values, Float32, BFloat16))
	}
	faults = append(faults, c.Admit.validate()...)
	faults = append(faults, c.Evict.validate()...)
	if n := len(c.Parts); n < 1 || n > MaxParts {
		faults = append(faults, fmt.Errorf("%d parts: give 1 to %d", n, MaxParts))
	}
	seen := map[string]bool{}
	for i, p := range c.Parts {
		if seen[p.Name] {
			faults = append(faults, fmt.Errorf("part %d: the name %q is taken", i, p.Name))
		}
		seen[p.Name] = true
		if p.DenseL2 && c.Values == BFloat16 {
			faults = append(faults, fmt.Errorf("part %d (%q): DenseL2 needs values of %s: its small steps would be noise", i, p.Name, Float32))
		}
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

func (a Admit) validate() (faults []error) {
	if a.After < 0 || a.After > math.MaxUint8 {
		faults = append(faults, fmt.Errorf("admit after %d occurrences: give 0 to %d", a.After, math.MaxUint8))
	}
	if a.Counters < 0 || a.Counters > 1<<36 {
		faults = append(faults, fmt.Errorf("admit by %d counters: give 0 to 2³⁶", a.Counters))
	}
	return faults
}

func (e Evict) validate() (faults []error) {
	if min(e.Age, e.HalfLife) < 0 || max(e.Age, e.HalfLife) > math.MaxInt32 {
		faults = append(faults, fmt.Errorf("evict: age %d and half-life %d: give 0 to %d steps", e.Age, e.HalfLife, math.MaxInt32))
	}
	if e.MaxRows < 0 {
		faults = append(faults, fmt.Errorf("evict: at most %d rows: give at least 0", e.MaxRows))
	}
	switch {
	case !(e.MinScore >= 0) || math.IsInf(e.MinScore, 0):
		faults = append(faults, fmt.Errorf("evict: score %v is not a finite number of at least 0", e.MinScore))
	case e.MinScore > 0 && e.HalfLife == 0:
		faults = append(faults, fmt.Errorf("evict: a lowest score of %v needs a half-life", e.MinScore))
	}
	return faults
}

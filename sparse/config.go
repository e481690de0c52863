package sparse

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/optim"
)

// Limits of a configuration. They bound what a file or a peer can announce.
const (
	MaxTables = 4096
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

// Table is a set of rows of one shape.
type Table struct {
	Name  string
	Parts []Part
}

// Config describes a store. Every rank opens it with the same one.
type Config struct {
	Tables []Table
	Seed   uint64 // of the initial rows

	// Shards is the number of equal parts of the key space, a power of two; 0
	// means 1024, which divides well over up to some hundred ranks.
	Shards int

	// MaxKeysPerExchange bounds the unique keys that one rank may ask of one
	// owner in one Pull, so that a broken peer cannot ask for any amount of
	// memory; 0 means 2²⁴ (128 MiB of keys).
	MaxKeysPerExchange int
}

// Default returns c with every zero option replaced by its default.
func (c Config) Default() Config {
	if c.Shards == 0 {
		c.Shards = 1024
	}
	if c.MaxKeysPerExchange == 0 {
		c.MaxKeysPerExchange = 1 << 24
	}
	c.Tables = slices.Clone(c.Tables)
	for i := range c.Tables {
		t := &c.Tables[i]
		t.Parts = slices.Clone(t.Parts)
		for j := range t.Parts {
			p := &t.Parts[j]
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
	}
	return c
}

// Validate returns every fault of c joined, nil if there is none.
func (c Config) Validate() error {
	c = c.Default()
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.Shards < 1 || c.Shards > MaxShards || c.Shards&(c.Shards-1) != 0 {
		fault("%d shards: give a power of two of at most %d", c.Shards, MaxShards)
	}
	if c.MaxKeysPerExchange < 1 || c.MaxKeysPerExchange > math.MaxInt32 {
		fault("at most %d keys per exchange: give a number of 1 to %d", c.MaxKeysPerExchange, math.MaxInt32)
	}
	if n := len(c.Tables); n < 1 || n > MaxTables {
		fault("%d tables: give 1 to %d", n, MaxTables)
	}
	seen := map[string]bool{}
	for i, t := range c.Tables {
		if seen[t.Name] {
			fault("table %d: the name %q is taken", i, t.Name)
		}
		seen[t.Name] = true
		for _, err := range t.validate() {
			fault("table %d (%q): %w", i, t.Name, err)
		}
	}
	return errors.Join(faults...)
}

func (t Table) validate() (faults []error) {
	if len(t.Name) < 1 || len(t.Name) > MaxName {
		faults = append(faults, fmt.Errorf("a name has 1 to %d bytes", MaxName))
	}
	if n := len(t.Parts); n < 1 || n > MaxParts {
		faults = append(faults, fmt.Errorf("%d parts: give 1 to %d", n, MaxParts))
	}
	seen := map[string]bool{}
	for i, p := range t.Parts {
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

// fingerprint is equal on ranks with equal configurations.
func (c Config) fingerprint() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%+v", c.Default())
	return h.Sum64()
}

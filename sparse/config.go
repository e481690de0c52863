package sparse

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/sparse/table"
)

// Limits of a configuration. They bound what a file or a peer can announce.
const (
	MaxTables = 4096
	MaxParts  = table.MaxParts
	MaxDim    = table.MaxDim
	MaxShards = table.MaxShards
	MaxName   = table.MaxName // bytes of a table's or part's name
)

// The shapes of a table are those of its engine.
type (
	Table = table.Config
	Part  = table.Part
	Init  = table.Init
)

// Config describes a store. Every rank opens it with the same one.
type Config struct {
	Tables []Table
	Seed   uint64 // of the initial rows

	// Shards is the number of equal parts of the key space, a power of two; 0
	// means 1024, which divides well over up to some hundred ranks.
	Shards int

	// Wire says by the name of a table how its rows and gradients travel; a table
	// that is not named has the zero Wire.
	Wire map[string]Wire

	// Strategies says by the name of a table what of it travels; a table that is not
	// named has Rows.
	Strategies map[string]Strategy

	// HotKeys is how many ChooseHot may choose; 0: none, and nothing is
	// measured for it.
	HotKeys int

	// MaxKeysPerExchange bounds the unique keys that one rank may ask of one
	// owner in one Pull, so that a broken peer cannot ask for any amount of
	// memory; 0 means 2²⁴ (128 MiB of keys).
	MaxKeysPerExchange int
}

// Wire says how the numbers of a table travel between ranks.
type Wire struct {
	Rows      Precision // owner to reader
	Gradients Precision // reader to owner
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
		c.Tables[i] = c.Tables[i].Default()
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
	if c.HotKeys < 0 || c.HotKeys > MaxHotKeys {
		fault("%d hot keys: give 0 to %d", c.HotKeys, MaxHotKeys)
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
		for _, err := range t.Validate() {
			fault("table %d (%q): %w", i, t.Name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Wire)) {
		w := c.Wire[name]
		if !seen[name] {
			fault("wire: there is no table %q", name)
		}
		if w.Rows > BF16 || w.Gradients > BF16 {
			fault("wire: table %q: %v and %v: give fp32 or bf16", name, w.Rows, w.Gradients)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Strategies)) {
		i := slices.IndexFunc(c.Tables, func(t Table) bool { return t.Name == name })
		if i < 0 {
			fault("strategies: there is no table %q", name)
		} else if err := c.Strategies[name].Refuses(c.Tables[i], c.Wire[name]); err != nil {
			fault("table %d (%q): %w", i, name, err)
		}
	}
	return errors.Join(faults...)
}

// fingerprint is equal on ranks with equal configurations.
func (c Config) fingerprint() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%+v", c.Default())
	return h.Sum64()
}

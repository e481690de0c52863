package sparse

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/sparse/table"
)

// Limits of a configuration. They bound the sizes in a file or in a message of a peer.
const (
	maxTables = 4096
	maxParts  = table.MaxParts
	maxDim    = table.MaxDim
	maxShards = table.MaxShards
	maxName   = table.MaxName // bytes of the name of a table or part
)

type (
	// Part is a range of a row's values with its own optimizer: Name, Dim, Rule, Init, L2
	// and DenseL2. Only Name, Dim and Rule are required. See [table.Part].
	Part = table.Part
	// Init is the values of a row before its first step: Kind is zero, normal or uniform,
	// Scale the standard deviation or the bound. See [table.Init].
	Init = table.Init
)

// Table describes a table: its rows, which keys get one, and how it is exchanged. All
// fields except Name and Parts may be zero.
type Table struct {
	Name   string
	Parts  []Part      // at least one
	Values string      // format in memory: table.Float32, the default, or table.BFloat16
	Admit  table.Admit // which keys get a row; the zero value: all
	Evict  table.Evict // which rows are removed; the zero value: none

	Strategy Strategy // what is sent; the zero value: Rows
	Wire     Wire     // format of sent numbers; the zero value: float32
}

// engine returns the configuration of the table in package table.
func (t Table) engine() table.Config {
	return table.Config{Name: t.Name, Parts: t.Parts, Values: t.Values, Admit: t.Admit, Evict: t.Evict}
}

// withDefaults returns t with every zero option replaced by its default.
func (t Table) withDefaults() Table {
	d := t.engine().Default()
	t.Parts, t.Values, t.Admit, t.Evict = d.Parts, d.Values, d.Admit, d.Evict
	return t
}

// Config describes a store. Every rank must open it with the same Config.
type Config struct {
	Tables []Table
	Seed   uint64 // seed of the initial rows

	// Shards is the number of equal parts of the key space, a power of two. 0 means 1024,
	// which divides well over up to a few hundred ranks.
	Shards int

	// MaxKeysPerExchange bounds the unique keys that one rank requests from one owner in
	// one Pull, and so the memory that a faulty peer can request. 0 means 2²⁴ (128 MiB of
	// keys).
	MaxKeysPerExchange int
}

// Wire is the format in which the numbers of a table are sent between ranks.
type Wire struct {
	Rows      Precision // owner to reader
	Gradients Precision // reader to owner
}

// withDefaults returns c with every zero option replaced by its default.
func (c Config) withDefaults() Config {
	if c.Shards == 0 {
		c.Shards = 1024
	}
	if c.MaxKeysPerExchange == 0 {
		c.MaxKeysPerExchange = 1 << 24
	}
	c.Tables = slices.Clone(c.Tables)
	for i := range c.Tables {
		c.Tables[i] = c.Tables[i].withDefaults()
	}
	return c
}

// validate returns all errors in c, joined, or nil.
func (c Config) validate() error {
	c = c.withDefaults()
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.Shards < 1 || c.Shards > maxShards || c.Shards&(c.Shards-1) != 0 {
		fault("%d shards: give a power of two of at most %d", c.Shards, maxShards)
	}
	if c.MaxKeysPerExchange < 1 || c.MaxKeysPerExchange > math.MaxInt32 {
		fault("at most %d keys per exchange: give a number of 1 to %d", c.MaxKeysPerExchange, math.MaxInt32)
	}
	if n := len(c.Tables); n < 1 || n > maxTables {
		fault("%d tables: give 1 to %d", n, maxTables)
	}
	seen := map[string]bool{}
	for i, t := range c.Tables {
		if seen[t.Name] {
			fault("table %d: the name %q is taken", i, t.Name)
		}
		seen[t.Name] = true
		for _, err := range t.faults() {
			fault("table %d (%q): %w", i, t.Name, err)
		}
	}
	return errors.Join(faults...)
}

// faults returns the errors in t by itself.
func (t Table) faults() []error {
	faults := t.engine().Validate()
	if t.Wire.Rows > BF16 || t.Wire.Gradients > BF16 {
		faults = append(faults, fmt.Errorf("wire: %v and %v: give fp32 or bf16", t.Wire.Rows, t.Wire.Gradients))
	}
	if err := t.Strategy.Refuses(t); err != nil {
		faults = append(faults, err)
	}
	return faults
}

// fingerprint returns a hash of the configuration, which is equal on all ranks.
func (c Config) fingerprint() uint64 {
	h := fnv.New64a()
	if err := json.NewEncoder(h).Encode(c.withDefaults()); err != nil {
		panic(err) // only for numbers that Validate rejects
	}
	return h.Sum64()
}

// Strategy selects what is sent for a table. Pooled gives the results of Rows up to the
// rounding of sums, and to the bit if no bag has more than two keys, or on one rank.
type Strategy uint8

// MarshalText writes the name of s.
func (s Strategy) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the name of a strategy. Checkpoints of earlier versions may name
// replicated, which gave the bits of Rows.
func (s *Strategy) UnmarshalText(b []byte) error {
	if string(b) == "replicated" {
		*s = Rows
		return nil
	}
	i := slices.Index(strategyNames(), string(b))
	if i < 0 {
		return fmt.Errorf("sparse: strategy %q is not one of %v", b, strategyNames())
	}
	*s = Strategy(i)
	return nil
}

func (s Strategy) String() string {
	if names := strategyNames(); int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("strategy %d", uint8(s))
}

// Refuses returns the reason why a table cannot use the strategy, or nil.
func (s Strategy) Refuses(t Table) error {
	switch {
	case s > Pooled:
		return fmt.Errorf("%v is not one of %v", s, strategyNames())
	case s == Pooled && t.Wire != Wire{}:
		return fmt.Errorf("a pooled table sends sums as fp32: remove the wire precisions (rows %v, gradients %v)", t.Wire.Rows, t.Wire.Gradients)
	}
	return nil
}

const (
	// Rows sends each distinct key of a rank to its owner, the row back and one gradient to
	// the owner. It suits every table.
	Rows Strategy = iota
	// Pooled makes the owners pool their part of each bag. Keys and factors are sent once
	// per occurrence, then one sum and one gradient per bag and owner. It suits long bags
	// of keys that rarely repeat.
	Pooled
)

// strategyNames returns the names of the strategies in order.
func strategyNames() []string { return []string{"rows", "pooled"} }

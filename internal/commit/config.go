package commit

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Mode says which slots of a step count.
type Mode uint8

// The modes; see the package comment.
const (
	Wait Mode = iota
	Drop
	Speculate
)

func (m Mode) String() string {
	if int(m) >= len(modeNames) {
		return fmt.Sprintf("mode %d", m)
	}
	return modeNames[m]
}

var modeNames = [...]string{"wait", "drop", "speculate"}

// ParseMode reads a mode's name.
func ParseMode(s string) (Mode, error) {
	i := slices.Index(modeNames[:], s)
	if i < 0 {
		return 0, fmt.Errorf("commit: mode %q: want wait, drop or speculate", s)
	}
	return Mode(i), nil
}

// Config says how a coordinator leads. The zero value of everything below Slots
// is the default.
type Config struct {
	Mode    Mode
	Workers int // ranks that may compute
	Slots   int // leased in each step; in Drop, Backup of them need not count

	Backup int  // b, in Drop
	Auto   bool // adapt b to what is measured, from Backup on

	// Replicas is how many ranks hold each shard; the owners are the ranks of
	// Owners, by default all. See Holders.
	Replicas int
	Owners   []int

	// Home is the rank that has the samples of a microbatch, nil if all have. It
	// gets it unless it is busy or was late with it.
	Home func(Batch) int

	// Epochs is when to end; 0: never. PauseEpochs stops at the end of each
	// until Resume, for evaluation.
	Epochs      int64
	PauseEpochs bool

	// Retries is how often a microbatch may be late before its step waits for
	// it. Default 3: late by chance a fourth time is rare even where one slot
	// in five is late.
	Retries int

	// Strikes is after how many failures in a row a rank gets no more leases,
	// and a microbatch is given up as one that no rank can compute. Default 3.
	Strikes int

	// Patience is how often a slot's usual time passes before an idle rank
	// redoes it, in Speculate. Default 1.5: later than scatter, before a stall.
	Patience float64

	// Resend is how long nothing may come before Tick repeats what is
	// outstanding. Default 1 s: messages are lost with a connection only.
	Resend time.Duration

	mutant mutant
}

// Default returns c with defaults filled in.
func (c Config) Default() Config {
	if c.Owners == nil {
		for r := range min(c.Workers, MaxRanks) { // Validate refuses more
			c.Owners = append(c.Owners, r)
		}
	}
	set := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	set(&c.Replicas, 1)
	set(&c.Retries, 3)
	set(&c.Strikes, 3)
	if c.Patience == 0 {
		c.Patience = 1.5
	}
	if c.Resend == 0 {
		c.Resend = time.Second
	}
	return c
}

// Validate reports all faults of c with its defaults.
func (c Config) Validate() error {
	c = c.Default()
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("commit: config: "+format, args...)) }
	if c.Mode > Speculate {
		fault("%v: want wait, drop or speculate", c.Mode)
	}
	if c.Workers < 1 || c.Workers > MaxRanks {
		fault("%d workers are not within 1 … %d", c.Workers, MaxRanks)
	}
	if c.Slots < 1 || c.Slots > MaxSlots {
		fault("%d slots are not within 1 … %d", c.Slots, MaxSlots)
	}
	if c.Backup < 0 || c.Backup >= max(c.Slots, 1) {
		fault("%d backups of %d slots: at least one slot must count", c.Backup, c.Slots)
	}
	if c.Mode != Drop && (c.Backup != 0 || c.Auto) {
		fault("mode %v has no backups: use drop", c.Mode)
	}
	if c.Replicas < 1 || c.Replicas > max(c.Workers, 1) {
		fault("%d replicas among %d ranks", c.Replicas, c.Workers)
	}
	if !slices.IsSorted(c.Owners) || len(slices.Compact(slices.Clone(c.Owners))) != len(c.Owners) ||
		len(c.Owners) == 0 || c.Owners[0] < 0 || c.Owners[len(c.Owners)-1] >= c.Workers {
		fault("owners %v: want ascending ranks within 0 … %d", c.Owners, c.Workers-1)
	} else if c.Workers <= MaxRanks && !Covers(c.Owners, c.Workers, c.Replicas) {
		fault("owners %v do not hold every shard with %d replicas among %d ranks", c.Owners, c.Replicas, c.Workers)
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"epochs", c.Epochs}, {"retries", int64(c.Retries)}, {"strikes", int64(c.Strikes)}, {"resend", int64(c.Resend)}} {
		if n.value < 0 {
			fault("%s %d is negative", n.name, n.value)
		}
	}
	if !(c.Patience >= 1 && c.Patience < 1e6) {
		fault("patience %v is not within 1 … 1e6", c.Patience)
	}
	return errors.Join(errs...)
}

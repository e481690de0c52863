package slots

import (
	"errors"
	"fmt"
	"slices"
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
		return 0, fmt.Errorf("slots: mode %q: want wait, drop or speculate", s)
	}
	return Mode(i), nil
}

// Config says how a machine decides. The zero value of everything below Ranks is the
// default.
type Config struct {
	Mode  Mode
	Ranks int // that compute, and slots of a step

	Backup int  // b, in Drop: so many slots of a step need not count
	Auto   bool // adapt b to what is measured, from Backup on

	// Home is the rank that has the samples of a microbatch, nil if all have. It
	// gets it unless it is busy or was late with it.
	Home func(Batch) int

	// Retries is how often a microbatch may be late before its step waits for
	// it. Default 3: late by chance a fourth time is rare even where one slot
	// in five is late.
	Retries int

	// Patience is how often a slot's usual time passes before an idle rank
	// redoes it, in Speculate. Default 1.5: later than scatter, before a stall.
	Patience float64
}

// Default returns c with defaults filled in.
func (c Config) Default() Config {
	if c.Retries == 0 {
		c.Retries = 3
	}
	if c.Patience == 0 {
		c.Patience = 1.5
	}
	return c
}

// Validate reports all faults of c with its defaults.
func (c Config) Validate() error {
	c = c.Default()
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("slots: config: "+format, args...)) }
	if c.Mode > Speculate {
		fault("%v: want wait, drop or speculate", c.Mode)
	}
	if c.Ranks < 1 || c.Ranks > MaxSlots {
		fault("%d slots are not within 1 … %d", c.Ranks, MaxSlots)
	}
	if c.Backup < 0 || c.Backup >= max(c.Ranks, 1) {
		fault("%d backups of %d slots: at least one slot must count", c.Backup, c.Ranks)
	}
	if c.Mode != Drop && (c.Backup != 0 || c.Auto) {
		fault("mode %v has no backups: use drop", c.Mode)
	}
	if c.Retries < 0 {
		fault("%d retries", c.Retries)
	}
	if !(c.Patience >= 1 && c.Patience < 1e6) {
		fault("patience %v is not within 1 … 1e6", c.Patience)
	}
	return errors.Join(errs...)
}

package slots

import (
	"errors"
	"fmt"
	"slices"
)

// Mode determines which slots of a step count.
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

// ParseMode returns the mode of a name.
func ParseMode(s string) (Mode, error) {
	i := slices.Index(modeNames[:], s)
	if i < 0 {
		return 0, fmt.Errorf("slots: mode %q: want wait, drop or speculate", s)
	}
	return Mode(i), nil
}

// Config configures a machine. The zero value of every field after Ranks is the default.
type Config struct {
	Mode  Mode
	Ranks int // number of ranks, and of slots in a step

	Backup int  // b, in Drop: number of slots of a step that need not count
	Auto   bool // adapt b to measured times, starting with Backup

	// Home returns the rank that has the samples of a microbatch; nil if all ranks have them.
	// That rank gets the microbatch unless it is busy or was late with it.
	Home func(Batch) int

	// Retries is the number of times that a microbatch may be late before its step waits for it.
	// Default 3: being late a fourth time by chance is rare even if one slot in five is late.
	Retries int
}

// repeatAfter is the number of usual times of a slot after which an idle rank computes it again, in
// Speculate. It exceeds normal variation and is shorter than a stall.
const repeatAfter = 1.5

// Default returns c with defaults filled in.
func (c Config) Default() Config {
	if c.Retries == 0 {
		c.Retries = 3
	}
	return c
}

// Validate returns all faults of c with its defaults.
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
	return errors.Join(errs...)
}

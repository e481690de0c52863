package step

import (
	"errors"
	"fmt"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/model/slots"
)

// Tolerance configures how a training treats slow ranks; see package slots. The zero value
// waits for them.
type Tolerance struct {
	Mode   slots.Mode
	Backup int  // microbatches that may be late, with slots.Drop
	Auto   bool // adapt Backup to measured times
}

// Off reports whether steps wait for all ranks.
func (t Tolerance) Off() bool {
	return t.Mode == slots.Wait && t.Backup == 0 && !t.Auto
}

// Of returns t or, if t is the zero value, the tolerance of the configuration. Drop without
// Backup sets Auto.
func (t Tolerance) Of(c *config.Config) (Tolerance, error) {
	if !t.Off() {
		return t, nil
	}
	mode, err := slots.ParseMode(c.Train.Mode)
	t.Mode, t.Backup, t.Auto = mode, c.Train.Backup, mode == slots.Drop && c.Train.Backup == 0
	if t.Backup > 0 && mode != slots.Drop {
		err = fmt.Errorf("train.backup: %d microbatches may be late only with train.mode drop, not %v", t.Backup, mode)
	}
	return t, err
}

// Write stores t in a configuration, unless t is the zero value.
func (t Tolerance) Write(c *config.Config) {
	if !t.Off() {
		c.Train.Mode, c.Train.Backup = t.Mode.String(), t.Backup
	}
}

// String formats t for messages.
func (t Tolerance) String() string {
	switch {
	case t.Auto:
		return "mode drop, backup as many as pays"
	case t.Mode == slots.Drop:
		return fmt.Sprintf("mode drop, backup %d", t.Backup)
	}
	return fmt.Sprint("mode ", t.Mode)
}

// Validate returns the faults of t for a configuration on size ranks.
func (t Tolerance) Validate(c *config.Config, size int) error {
	if t.Off() {
		return nil
	}
	err := t.machine(size).Validate()
	if c.Model.BatchNorm {
		err = errors.Join(err, fmt.Errorf("mode %v: model.batch_norm sums over all ranks in the middle of a batch and cannot leave slow ones behind: turn it off, or use mode wait", t.Mode))
	}
	return err
}

// machine returns the configuration of the state machine on size ranks.
func (t Tolerance) machine(size int) slots.Config {
	return slots.Config{
		Mode: t.Mode, Ranks: size, Backup: t.Backup, Auto: t.Auto,
		Home: func(b slots.Batch) int { return int(b.First % int64(size)) },
	}
}

// Microbatches returns the queue of an epoch of steps global batches on size ranks.
// Microbatch i is the part of rank i mod P of global batch ⌊i/P⌋.
func Microbatches(epoch, steps int64, size int) slots.Queue {
	return slots.Queue{Epoch: epoch, Total: steps * int64(size), Size: 1}
}

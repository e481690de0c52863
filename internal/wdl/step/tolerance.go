package step

import (
	"errors"
	"fmt"
	"math"

	"github.com/wdlrun/wdlrun/internal/commit"
	"github.com/wdlrun/wdlrun/internal/wdl/config"
	"github.com/wdlrun/wdlrun/sparse"
)

// Tolerance says how a training gets on with slow ranks; see package commit. The
// zero value waits for them.
type Tolerance struct {
	Mode   commit.Mode
	Backup int  // b, with Drop
	Auto   bool // adapt b to what is measured
}

// Off reports whether steps wait for all ranks.
func (t Tolerance) Off() bool {
	return t.Mode == commit.Wait && t.Backup == 0 && !t.Auto
}

// Of returns t, or where it says nothing what the configuration says. Drop without
// backups finds out how many pay.
func (t Tolerance) Of(c *config.Config) (Tolerance, error) {
	if !t.Off() {
		return t, nil
	}
	mode, err := commit.ParseMode(c.Train.Mode)
	t.Mode, t.Backup, t.Auto = mode, c.Train.Backup, mode == commit.Drop && c.Train.Backup == 0
	if t.Backup > 0 && mode != commit.Drop {
		err = fmt.Errorf("wdl: train.backup: %d microbatches may be late only with train.mode drop, not %v", t.Backup, mode)
	}
	return t, err
}

// Write puts t into a configuration, if it says something.
func (t Tolerance) Write(c *config.Config) {
	if !t.Off() {
		c.Train.Mode, c.Train.Backup = t.Mode.String(), t.Backup
	}
}

// String is t for people.
func (t Tolerance) String() string {
	switch {
	case t.Auto:
		return "mode drop, backup as many as pays"
	case t.Mode == commit.Drop:
		return fmt.Sprintf("mode drop, backup %d", t.Backup)
	}
	return fmt.Sprint("mode ", t.Mode)
}

// Validate reports what is wrong with t for a configuration on so many ranks.
func (t Tolerance) Validate(c *config.Config, size int) error {
	if t.Off() {
		return nil
	}
	err := t.lead(size).Validate()
	if c.Model.BatchNorm {
		err = errors.Join(err, fmt.Errorf("wdl: mode %v: model.batch_norm sums over all ranks in the middle of a batch and cannot leave slow ones behind: turn it off, or use mode wait", t.Mode))
	}
	for i, x := range c.Tables {
		if x.Strategy == sparse.Replicated.String() {
			err = errors.Join(err, fmt.Errorf("wdl: mode %v: tables[%d].strategy: gradients of replicated table %q are not told apart by microbatch: choose rows or pooled, or use mode wait", t.Mode, i, x.Name))
		}
	}
	return err
}

// lead is the coordinator's configuration: the group of all ranks is one owner,
// as collective calls end on all of them or on none.
func (t Tolerance) lead(size int) commit.Config {
	return commit.Config{
		Mode: t.Mode, Workers: size, Slots: size, Backup: t.Backup, Auto: t.Auto,
		Replicas: size, Owners: []int{groupOwner}, PauseEpochs: true,
		Resend: math.MaxInt64, // nothing is lost on the way from a rank to itself
		Home:   func(b commit.Batch) int { return int(b.First % int64(size)) },
	}
}

// groupOwner is the rank by which the group is known as an owner.
const groupOwner = 0

// Microbatches returns the queue of an epoch of steps global batches on so many
// ranks: microbatch i is what rank i mod P has of global batch ⌊i/P⌋.
func Microbatches(epoch, steps int64, size int) commit.Queue {
	return commit.Queue{Epoch: epoch, Total: steps * int64(size), Size: 1}
}

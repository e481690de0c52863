package train

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/model/slots"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/optim"
)

// checkVersion returns an error if a checkpoint was written by a version whose summing update
// rules saw the mean gradient. Their state has other units, so no training can resume from
// it.
func checkVersion(from *checkpoint.Checkpoint) error {
	if from == nil {
		return nil
	}
	was, err := save.ReadConfig(from)
	if err != nil || was.Train.Scaling != "" {
		return err
	}
	o := was.Train.Optimizer
	rules := []optim.Rule{o.Dense, o.Deep, o.Wide}
	for _, t := range was.Tables {
		for _, r := range []*optim.Rule{t.Deep, t.Wide} {
			if r != nil {
				rules = append(rules, *r)
			}
		}
	}
	for _, r := range rules {
		if r.Kind != "" && r.Sums() {
			return fmt.Errorf("resume: %s is of an earlier version, which kept the state of %s in other units: evaluate it, or start a new training", from.Dir(), r.Kind)
		}
	}
	return nil
}

// checkMode returns an error if steps that wait for all ranks cannot resume from a cursor.
func (c *cursor) checkMode() error {
	if c.Queue == nil {
		return nil
	}
	return fmt.Errorf("resume: the checkpoint of step %d is inside an epoch with late microbatches: resume with the mode of that training, or from a checkpoint at the end of an epoch", c.Step)
}

// checkOrder returns an error if a cursor is inside an epoch whose samples another version
// ordered differently.
func (c *cursor) checkOrder() error {
	if c.Order == data.Order || c.Queue == nil && (c.Consumed == 0 || c.Consumed == c.Rows) {
		return nil
	}
	return fmt.Errorf("resume: the checkpoint of step %d is inside an epoch, after row %d of %d, and was written by a version that orders samples in another way: restart the epoch, from the checkpoint at its beginning", c.Step, c.Consumed, c.Rows)
}

// resumable returns an error if a training on the given number of ranks cannot resume from a
// checkpoint inside an epoch. The error names the number of ranks or the checkpoint with
// which it could.
func (o Options) resumable(from *checkpoint.Checkpoint, c *config.Config, ranks int) error {
	var at cursor
	if err := save.ReadJSON(from, save.SectionCursor, &at); err != nil {
		return err
	}
	if err := at.checkOrder(); err != nil {
		return fmt.Errorf("%w%s", err, lastEnd(from.Dir()))
	}
	how, err := o.Tolerance.Of(c)
	if err != nil || at.Queue == nil && how.Off() {
		return err
	}
	if how.Off() {
		err = at.checkMode()
	} else {
		_, err = recordAt(&at, ranks, int64(c.Train.Global(ranks)))
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w\n  it is of -np %d%s", err, len(from.Manifest().Files), lastEnd(from.Dir()))
}

// lastEnd describes the last checkpoint of the same run at the end of an epoch.
func lastEnd(dir string) string {
	all, _ := checkpoint.List(filepath.Dir(dir)) // an empty list is reported below
	for _, f := range all {
		c, err := checkpoint.Open(f.Dir)
		if err != nil {
			continue
		}
		if p, err := save.ReadProgress(c); err == nil && p.Consumed == 0 {
			return "; the last one at the end of an epoch: -resume " + f.Dir
		}
	}
	return "; there is none at the end of an epoch"
}

// errInside is the error of a checkpoint inside an epoch that was divided for another number
// of ranks or another batch.
var errInside = errors.New("resume on as many ranks and with the same batch, or from a checkpoint at the end of an epoch")

// recordAt returns the record from which a coordinator of size ranks resumes at a cursor.
func recordAt(c *cursor, size int, batch int64) (slots.Record, error) {
	q := step.Microbatches(c.Epoch, data.Steps(c.Rows, int(batch)), size)
	switch {
	case c.Queue != nil:
		if c.Queue.Total != q.Total || c.Queue.Epoch != q.Epoch {
			return slots.Record{}, fmt.Errorf("resume: the checkpoint of step %d is inside an epoch of %d microbatches, here there are %d: %w", c.Step, c.Queue.Total, q.Total, errInside)
		}
		q = *c.Queue
	case c.Consumed == c.Rows:
		q.Next = q.Total
	case c.Consumed%batch != 0:
		return slots.Record{}, fmt.Errorf("resume: the checkpoint of step %d is after row %d of an epoch, where no global batch of %d begins: resume with mode wait, whose batches grow to that size (train.scaling), or from a checkpoint at the end of an epoch", c.Step, c.Consumed, batch)
	default:
		q.Next = c.Consumed / batch * int64(size)
	}
	if err := q.Validate(); err != nil {
		return slots.Record{}, fmt.Errorf("resume: checkpoint of step %d: %w", c.Step, err)
	}
	return slots.Record{Step: c.Step, Queue: q}, nil
}

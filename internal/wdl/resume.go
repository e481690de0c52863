package wdl

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/wdl/save"
	"github.com/wdlrun/wdlrun/trace"
)

// choose opens the checkpoint to resume from, after reading every byte of it and of
// those it builds upon, unless that has just been done. One that is damaged is refused with its fault, and an earlier
// one taken; so is, in a job that starts again, one from which the ranks that are left
// cannot go on. Nil is the beginning: that is all there is for them.
func (j *job) choose(ctx context.Context) (*checkpoint.Checkpoint, error) {
	var accept []func(*checkpoint.Checkpoint) error
	if !j.opt.Read || !checkpoint.IsCheckpoint(j.opt.Resume) {
		accept = append(accept, func(c *checkpoint.Checkpoint) error { return j.verify(ctx, c) })
	}
	if j.opt.Again != "" {
		accept = append(accept, j.goesOn)
	}
	c, refused, err := checkpoint.Resolve(j.opt.Resume, accept...)
	for _, r := range refused {
		j.opt.Warn(fmt.Sprintf("checkpoint rejected: %v", r))
	}
	inside := func(err error) bool { return errors.Is(err, errInside) }
	switch {
	case err != nil && len(refused) > 0 && !slices.ContainsFunc(refused, func(err error) bool { return !inside(err) }):
		j.opt.Warn("the training restarts from the beginning")
		return nil, nil
	case err != nil:
		return nil, err
	case len(refused) > 0:
		j.opt.Warn(fmt.Sprintf("an earlier checkpoint is used: %s", c.Dir()))
	}
	return c, nil
}

// verify reads every byte of a checkpoint and of those it builds upon; that it gets on
// is seen outside.
func (j *job) verify(ctx context.Context, c *checkpoint.Checkpoint) error {
	c.Watch(j.shown.Advance)
	return c.Verify(ctx)
}

// load replaces parameters, tables and cursor by those of a checkpoint, of any
// world size. A cursor inside an epoch is of use only for the same data.
func (j *job) load(c *checkpoint.Checkpoint) error {
	j.rec.Enter(trace.Restore)
	was := j.cursor
	j.cursor = cursor{}
	if err := save.ReadJSON(c, save.SectionCursor, &j.cursor); err != nil {
		return err
	}
	if now := &j.cursor; now.Data != was.Data && j.eval == nil && j.in.Train != nil {
		if now.Consumed > 0 {
			return fmt.Errorf("wdl: resume: the training data has changed: %d rows, fingerprint %s, and the checkpoint of step %d is inside an epoch of %d rows, fingerprint %s; restore the data, or resume from a checkpoint at the end of an epoch%s",
				was.Rows, was.Data, now.Step, now.Rows, now.Data, lastEnd(c.Dir()))
		}
		now.Rows, now.Data = was.Rows, was.Data
	}
	if j.eval == nil {
		if err := j.cursor.ordered(); err != nil {
			return fmt.Errorf("%w%s", err, lastEnd(c.Dir()))
		}
		j.cursor.Order = data.Order
	}
	if stop := j.config.Train.EarlyStop; j.cursor.Enough && j.eval == nil { // it may have more patience now
		j.cursor.Enough = stop.Patience > 0 && j.cursor.Progress.Waited >= stop.Patience
	}
	if j.saver != nil {
		j.saver.Resume(c.Step(), len(c.Chain())-1)
	}
	return j.trainer.Load(c, nil)
}

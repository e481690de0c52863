package wdl

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/wdl/config"
	"github.com/wdlrun/wdlrun/internal/wdl/step"
)

// fixed is what a job keeps whose steps are in slots.
type fixed struct {
	steps   *step.Slots
	slots   int
	readers []*data.Reader // by own slot
}

// checkSlots reports why a configuration cannot be trained in slots on so many ranks.
func checkSlots(c *config.Config, replicas, size int) error {
	var errs []error
	fault := func(format string, a ...any) { errs = append(errs, fmt.Errorf("wdl: train.slots: "+format, a...)) }
	s := c.Train.Slots
	if bits.OnesCount(uint(s)) != 1 || size > s || s%size != 0 {
		fault("%d slots on %d ranks: give a power of two, on 1, 2, 4 … ranks up to that", s, size)
	}
	if c.Train.Batch > 0 {
		fault("the global batch must not depend on the ranks: give train.global_batch instead of train.batch")
	}
	if c.Model.BatchNorm {
		fault("model.batch_norm sums over the ranks in the middle of a batch: turn it off")
	}
	if c.Train.ClipNorm > 0 {
		fault("train.clip_norm needs a norm that is summed by rank: turn it off")
	}
	if c.Train.Mode != "wait" {
		fault("mode %s shares out microbatches in its own way: use mode wait", c.Train.Mode)
	}
	if replicas > 1 || c.Data.Follow.On {
		fault("cannot be combined with -replicas or data.follow")
	}
	for i, x := range c.Tables {
		if x.Strategy == "pooled" || x.Strategy == "replicated" {
			fault("tables[%d].strategy: %s sums by rank: choose rows", i, x.Strategy)
		}
	}
	return errors.Join(errs...)
}

// fixedEpoch is epoch by steps in slots.
func (j *job) fixedEpoch(ctx context.Context) (stopped bool, err error) {
	x := j.fixed
	defer x.close(j)
	for _, s := range x.steps.Mine() {
		r, err := j.in.PartReader(j.cursor.in(), 1, s, x.slots, j.config.Train.GlobalBatch)
		if err != nil {
			return false, err
		}
		x.readers = append(x.readers, r)
	}
	j.shown.Read(x.readers[0])
	defer j.shown.Unread()
	if err := j.evaluateStep(ctx); err != nil || j.done() {
		return false, err
	}
	total := j.total()
	batches, err := x.read(ctx, j)
	for batches != nil && err == nil {
		var next []*encode.Batch
		if next, err = x.read(ctx, j); err != nil {
			return false, err
		}
		if err := j.faults.strike(j.cursor.Step + 1); err != nil {
			return false, err
		}
		ahead := next
		if j.evaluatesAfter(j.cursor.Step + 1) {
			ahead = nil // their rows are pulled after the evaluation
		}
		rate := j.rate(total)
		out, err := x.steps.Step(j.cursor.Step+1, rate, batches, ahead, j.wish())
		if err != nil {
			return false, err
		}
		if stop, err := j.stepped(ctx, out, rate, total); stop || err != nil {
			return stop, err
		}
		for i, r := range x.readers {
			r.Recycle(batches[i])
		}
		batches = next
	}
	return false, err
}

// read returns the batches of the next step, by own slot, nil after the last.
func (x *fixed) read(ctx context.Context, j *job) (batches []*encode.Batch, err error) {
	for _, r := range x.readers {
		b, err := j.read(ctx, r)
		if err != nil || b == nil { // every slot has as many
			return nil, err
		}
		batches = append(batches, b)
	}
	return batches, nil
}

// close ends the readers of an epoch.
func (x *fixed) close(j *job) {
	for _, r := range x.readers {
		r.Close()
		j.in.Ended(r)
	}
	x.readers = x.readers[:0]
}

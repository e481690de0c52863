package wdl

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// choose opens the checkpoint to resume from, after reading every byte of it.
// One that is damaged is refused with its fault, and an earlier one taken.
func choose(ctx context.Context, path string, warn func(string)) (*checkpoint.Checkpoint, error) {
	whole := func(c *checkpoint.Checkpoint) error { return c.Verify(ctx) }
	c, refused, err := checkpoint.Resolve(path, whole)
	for _, r := range refused {
		warn(fmt.Sprintf("checkpoint refused: %v", r))
	}
	if err != nil {
		return nil, err
	}
	if len(refused) > 0 {
		warn(fmt.Sprintf("an earlier checkpoint is used: %s", c.Dir()))
	}
	return c, nil
}

// load replaces parameters, tables and cursor by those of a checkpoint, of any
// world size. A cursor inside an epoch is of use only for the same data.
func (j *job) load(c *checkpoint.Checkpoint) error {
	j.rec.Enter(trace.Checkpoint)
	was := j.cursor
	if err := readJSON(c, sectionCursor, &j.cursor); err != nil {
		return err
	}
	if now := &j.cursor; now.Data != was.Data && j.eval == nil {
		if now.Consumed > 0 {
			return fmt.Errorf("wdl: resume: the training data has changed: %d rows, fingerprint %s, and the checkpoint of step %d stands inside an epoch of %d rows, fingerprint %s; restore the data, or resume from a checkpoint at the end of an epoch",
				was.Rows, was.Data, now.Step, now.Rows, now.Data)
		}
		now.Rows, now.Data = was.Rows, was.Data
	}
	j.lastSaved = c.Step()
	return j.trainer.load(c)
}

// load replaces the parameters by those of a checkpoint; each rank reads the
// shards it owns.
func (t *Trainer) load(c *checkpoint.Checkpoint) error {
	if err := c.Read(sectionDense, t.model.arena.Load); err != nil {
		return err
	}
	store := t.model.store
	if err := store.Reset(); err != nil {
		return err
	}
	for table, tb := range t.model.layout.tables {
		store.SetNow(table, c.Step()) // ages count from there
		for _, shard := range store.Owned() {
			name := sparse.SectionName(tb.Name, shard)
			if !c.Has(name) {
				continue // a shard without rows is not saved
			}
			err := c.Read(name, func(r io.Reader) error { return store.LoadShard(r, table, shard) })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func readJSON(c *checkpoint.Checkpoint, section string, to any) error {
	return c.Read(section, func(r io.Reader) error {
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return json.Unmarshal(b, to)
	})
}

// readAll reads a section whole; it is for the small ones.
func readAll(c *checkpoint.Checkpoint, section string) (b []byte, err error) {
	err = c.Read(section, func(r io.Reader) (err error) {
		b, err = io.ReadAll(r)
		return err
	})
	return b, err
}

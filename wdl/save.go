package wdl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// maxReport bounds what ranks tell each other about a checkpoint's part.
const maxReport = 1 << 16

// partReport is what each rank says of its part of a checkpoint.
type partReport struct {
	File  checkpoint.File
	Fault string
}

// save writes a checkpoint of the current step with all ranks. Where one of
// them cannot (a full disk), the checkpoint is given up, the earlier ones stay,
// the user is told, and saved is false; training goes on. err is for the group.
func (j *job) save() (saved bool, err error) {
	j.rec.Enter(trace.Checkpoint)
	root := filepath.Join(j.runDir, checkpoint.Folder)
	var report partReport
	if file, err := j.writePart(root); err != nil {
		report.Fault = err.Error()
	} else {
		report.File = file
	}
	b, err := json.Marshal(report)
	if err != nil {
		return false, err
	}
	j.rec.Enter(trace.Wait)
	all, err := collective.AllGatherBytes(j.comm, b, maxReport)
	if err != nil {
		return false, err
	}
	fault, files := "", []checkpoint.File(nil)
	for rank, b := range all {
		var r partReport
		if err := json.Unmarshal(b, &r); err != nil {
			return false, fmt.Errorf("wdl: checkpoint: report of rank %d: %w", rank, err)
		}
		if r.Fault != "" && fault == "" {
			fault = fmt.Sprintf("rank %d: %s", rank, r.Fault)
		}
		files = append(files, r.File)
	}
	if j.comm.Rank() == 0 {
		if fault == "" {
			fault = j.commit(root, files)
		} else if err := checkpoint.Abandon(root, j.cursor.Step); err != nil {
			j.opt.Warn(err.Error())
		}
	}
	verdict, err := collective.BroadcastBytes(j.comm, []byte(fault), 0, maxReport)
	if err != nil {
		return false, err
	}
	j.reportSave(string(verdict))
	return len(verdict) == 0, nil
}

// writePart writes and closes this rank's part.
func (j *job) writePart(root string) (checkpoint.File, error) {
	if err := j.faults.diskFull(j.cursor.Step); err != nil {
		return checkpoint.File{}, err
	}
	w, err := checkpoint.Create(root, j.cursor.Step, j.comm.Rank(), j.comm.Size())
	if err != nil {
		return checkpoint.File{}, err
	}
	if err := j.write(w); err != nil {
		w.Discard()
		return checkpoint.File{}, err
	}
	return w.Close()
}

// commit makes the parts a checkpoint and removes old ones; rank 0 only.
func (j *job) commit(root string, files []checkpoint.File) (fault string) {
	err := checkpoint.Commit(root, checkpoint.Manifest{Step: j.cursor.Step, Files: files})
	if err != nil {
		if e := checkpoint.Abandon(root, j.cursor.Step); e != nil {
			err = errors.Join(err, e)
		}
		return err.Error()
	}
	protect := []string{}
	if j.cursor.Best > 0 {
		protect = append(protect, checkpoint.Dir(root, j.cursor.Best))
	}
	if err := checkpoint.Prune(root, j.config.Train.Checkpoint.Keep, protect...); err != nil {
		j.opt.Warn(fmt.Sprintf("old checkpoints could not be removed: %v", err))
	}
	return ""
}

// reportSave tells the user once, from rank 0, how a checkpoint went wrong.
func (j *job) reportSave(fault string) {
	if fault == "" {
		j.lastSaved = j.cursor.Step
		return
	}
	if j.comm.Rank() != 0 {
		return
	}
	last := "no checkpoint has been written so far"
	if j.lastSaved > 0 {
		last = fmt.Sprintf("the last good one is that of step %d", j.lastSaved)
	}
	j.opt.Warn(fmt.Sprintf("checkpoint of step %d failed, training goes on, %s: %s", j.cursor.Step, last, fault))
}

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

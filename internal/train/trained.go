package train

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train/save"
)

// Trained is the model of a training.
type Trained struct {
	Checkpoint *checkpoint.Checkpoint
	Config     []byte // YAML
	Encoder    []byte // JSON
	Best       int    // epoch chosen by early stopping, if not the last
	Last       int64  // step of the run's last checkpoint
}

// OpenTrained opens and verifies the model of a run directory or of one checkpoint. If a run
// stopped early, it opens the best epoch, as an evaluation does.
func OpenTrained(ctx context.Context, path string, warn func(line string)) (t Trained, err error) {
	verify := func(c *checkpoint.Checkpoint) error { return c.Verify(ctx) }
	c, refused, err := checkpoint.Resolve(path, verify)
	for _, r := range refused {
		warn(fmt.Sprintf("checkpoint rejected: %v", r))
	}
	if err != nil {
		return t, rundir.ResumeHint(err, path)
	}
	t.Checkpoint, t.Last = c, c.Step()
	if filepath.Clean(path) != filepath.Clean(c.Dir()) {
		if err := t.chooseBest(ctx, warn); err != nil {
			return t, err
		}
	}
	if t.Config, err = save.Read(t.Checkpoint, save.SectionConfig); err == nil {
		t.Encoder, err = save.Read(t.Checkpoint, save.SectionEncoder)
	}
	return t, err
}

// chooseBest replaces the last checkpoint with the checkpoint of the best epoch if the training
// has ended and early stopping has chosen one.
func (t *Trained) chooseBest(ctx context.Context, warn func(line string)) error {
	var now cursor
	if err := save.ReadJSON(t.Checkpoint, save.SectionCursor, &now); err != nil {
		return err
	}
	conf, err := save.ReadConfig(t.Checkpoint)
	if err != nil {
		return err
	}
	conf.Fill()
	done := now.Enough || now.Epoch >= int64(conf.Train.Epochs)
	if !done || now.Best == 0 || now.Best == now.Step {
		return nil
	}
	best, err := checkpoint.Open(checkpoint.Dir(filepath.Dir(t.Checkpoint.Dir()), now.Best))
	if err == nil {
		err = best.Verify(ctx)
	}
	if err != nil {
		warn(fmt.Sprintf("the best epoch (step %d) cannot be read, the last epoch is taken: %v", now.Best, err))
		return ctx.Err()
	}
	t.Checkpoint, t.Best = best, now.Progress.BestEpoch
	return nil
}

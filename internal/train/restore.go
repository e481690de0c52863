package train

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/trace"
)

// restoreBest restores the best epoch if early stopping is on and the last epoch was not the
// best. If its checkpoint is missing or damaged, restoreBest warns and keeps the last epoch.
func (r *run) restoreBest() (restored bool, err error) {
	best := r.cursor.Best
	if best == 0 || best == r.cursor.Step {
		return best > 0, nil
	}
	var was cursor
	c, fault, err := r.restorable(context.Background(), checkpoint.Dir(filepath.Join(r.runDir, checkpoint.Folder), best), true)
	if err != nil {
		return false, err
	}
	if fault != "" {
		r.Warn(fmt.Sprintf("the best epoch (step %d) cannot be restored, so the result is of the last epoch: %s", best, fault))
		return false, nil
	}
	c.Watch(r.shown.Advance)
	if err := save.ReadJSON(c, save.SectionCursor, &was); err != nil {
		return false, err
	}
	if r.cursor.LastLoss = was.LastLoss; was.Consumed > 0 { // with train.eval_steps it is inside an epoch
		r.cursor.LastLoss = was.meanLoss()
	}
	return true, r.trainer.Load(c, nil, was.Refit.steps(), save.FilledConfig)
}

// restorable opens a checkpoint of this job on all ranks. If verify is set, it is read first.
// fault, the same on every rank, is why it cannot be used.
func (r *run) restorable(ctx context.Context, dir string, verify bool) (c *checkpoint.Checkpoint, fault string, err error) {
	r.Rec.Enter(trace.Restore)
	several := r.volumes.Several() || r.volumes != nil && r.use.Evaluates // an evaluation does not know its volumes
	fault, err = save.First(r.Comm, r.Rec, func() (err error) {
		if c, err = checkpoint.Open(dir); err == nil && verify && !several {
			c.Watch(r.shown.Advance)
			err = c.Verify(ctx)
		}
		return err
	})
	if err != nil || fault != "" {
		return nil, fault, err
	}
	r.Rec.Enter(trace.Restore)
	if several {
		return r.volumes.Fetch(ctx, c, verify, (hostVolumes{r}).observer())
	}
	if c == nil {
		c, err = checkpoint.Open(dir)
	}
	return c, "", err
}

package save

import (
	"context"
	"path/filepath"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
)

// Progress is the position of a training at a checkpoint.
type Progress struct {
	Epoch    int64 `json:"epoch"`    // epochs completed
	Consumed int64 `json:"consumed"` // rows of the epoch after them
	Step     int64 `json:"step"`
	Samples  int64 `json:"samples"`
	Best     int64 `json:"best,omitempty"` // step of the best epoch's checkpoint
}

// ReadProgress returns the progress that a checkpoint holds.
func ReadProgress(c *checkpoint.Checkpoint) (p Progress, err error) {
	err = ReadJSON(c, SectionCursor, &p)
	return p, err
}

// Prune removes the checkpoints of a run directory, except the newest keep that are intact
// and the checkpoint of the best epoch. It reads every byte of the newest ones to check them. It
// returns the removed checkpoints (of one that was moved elsewhere and linked, the link), and the damaged ones that are newer than the last kept,
// which are not removed. With dry nothing is removed. It fails if a training is running in
// the directory.
func Prune(ctx context.Context, runDir string, keep int, dry bool) (removed []checkpoint.Found, damaged []string, err error) {
	if _, err := checkpoint.List(filepath.Join(runDir, checkpoint.Folder)); err != nil {
		return nil, nil, err
	}
	turn, err := rundir.Take(runDir, rundir.Owner{}, "")
	if err != nil {
		return nil, nil, err
	}
	defer turn.Close()
	root := turn.Root
	whole := func(c *checkpoint.Checkpoint) error { return c.Verify(ctx) }
	last, _, err := checkpoint.Latest(root, whole)
	if err != nil {
		return nil, nil, err
	}
	p, err := ReadProgress(last)
	if err != nil {
		return nil, nil, err
	}
	var protect []string
	if p.Best > 0 {
		protect = append(protect, checkpoint.Dir(root, p.Best))
	}
	opening, damaged, err := verifyNewest(ctx, root, keep, p.Best)
	if err != nil {
		return nil, nil, err
	}
	old, err := checkpoint.Old(root, opening, protect...)
	if err == nil && !dry {
		err = checkpoint.Prune(root, opening, protect...)
	}
	if err != nil {
		return nil, nil, err
	}
	return old, damaged, nil
}

// verifyNewest verifies checkpoints from the newest on until keep of them are intact. It does not
// count the checkpoint of the best step. It returns how many of the visited checkpoints can be
// opened, and the damaged ones.
func verifyNewest(ctx context.Context, root string, keep int, best int64) (opening int, damaged []string, err error) {
	all, err := checkpoint.List(root)
	if err != nil {
		return 0, nil, err
	}
	damaged = []string{}
	for _, f := range all {
		if keep == 0 {
			break
		}
		c, err := checkpoint.Open(f.Dir)
		opens := err == nil
		if opens {
			err = c.Verify(ctx)
		}
		if e := ctx.Err(); e != nil {
			return 0, nil, e
		}
		if err != nil {
			damaged = append(damaged, f.Dir)
		}
		if opens && f.Step != best {
			opening++
			if err == nil {
				keep--
			}
		}
	}
	return max(opening, 1), damaged, nil
}

package save

import (
	"context"
	"path/filepath"

	"github.com/wdlrun/wdlrun/checkpoint"
)

// Progress is where the training of a checkpoint stood.
type Progress struct {
	Epoch    int64 `json:"epoch"`    // epochs completed
	Consumed int64 `json:"consumed"` // rows of the epoch after them
	Step     int64 `json:"step"`
	Samples  int64 `json:"samples"`
	Best     int64 `json:"best,omitempty"` // step of the best epoch's checkpoint
}

// ReadProgress reads it from a checkpoint.
func ReadProgress(c *checkpoint.Checkpoint) (p Progress, err error) {
	err = ReadJSON(c, SectionCursor, &p)
	return p, err
}

// Prune removes the checkpoints of a run directory but the newest keep that are whole
// and that of the best epoch, reading every byte of them, and returns those removed;
// dry only says which they would be. Damaged are those newer than the last kept, which
// stay to be looked at. A directory in which a training runs is rejected.
func Prune(ctx context.Context, runDir string, keep int, dry bool) (removed, damaged []string, err error) {
	unlock, err := Lock(runDir)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	root := filepath.Join(runDir, checkpoint.Folder)
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
	opening, damaged, err := newest(ctx, root, keep, p.Best)
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
	removed = []string{}
	for _, f := range old {
		removed = append(removed, f.Dir)
	}
	return removed, damaged, nil
}

// newest counts the checkpoints that open down to the keepth that is whole, without
// that of the best step, and names the damaged ones it met.
func newest(ctx context.Context, root string, keep int, best int64) (opening int, damaged []string, err error) {
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

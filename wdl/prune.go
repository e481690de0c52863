package wdl

import (
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
	err = readJSON(c, sectionCursor, &p)
	return p, err
}

// Prune removes the checkpoints of a run directory but the newest keep and that of
// the best epoch, and returns those removed; dry only says which they would be. A
// directory in which a training runs is refused.
func Prune(runDir string, keep int, dry bool) (removed []string, err error) {
	unlock, err := lock(runDir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	root := filepath.Join(runDir, checkpoint.Folder)
	before, err := checkpoint.List(root)
	if err != nil {
		return nil, err
	}
	last, _, err := checkpoint.Latest(root)
	if err != nil {
		return nil, err
	}
	p, err := ReadProgress(last)
	if err != nil {
		return nil, err
	}
	var protect []string
	if p.Best > 0 {
		protect = append(protect, checkpoint.Dir(root, p.Best))
	}
	old, err := checkpoint.Old(root, keep, protect...)
	if err == nil && !dry {
		err = checkpoint.Prune(root, keep, protect...)
	}
	if err != nil {
		return nil, err
	}
	removed = []string{}
	for _, f := range before {
		for _, o := range old {
			if f.Step == o.Step {
				removed = append(removed, f.Dir)
			}
		}
	}
	return removed, nil
}

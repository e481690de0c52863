package save

import (
	"fmt"
	"path/filepath"

	"github.com/wdlrun/wdlrun/checkpoint"
)

// Inherit copies the checkpoint that a training starts from, and the checkpoint of the best epoch
// before it, to the root of a new run directory. The new directory then needs no other.
func Inherit(from *checkpoint.Checkpoint, root string, warn func(line string)) error {
	if err := checkpoint.Copy(from, root); err != nil {
		return err
	}
	c, err := ReadProgress(from)
	if err != nil {
		return err
	}
	if c.Best == 0 || c.Best == c.Step {
		return nil
	}
	best, err := checkpoint.Open(checkpoint.Dir(filepath.Dir(from.Dir()), c.Best))
	if err == nil {
		err = checkpoint.Copy(best, root)
	}
	if err != nil {
		warn(fmt.Sprintf("the best epoch so far (step %d) can no longer be restored: %v", c.Best, err))
	}
	return nil
}

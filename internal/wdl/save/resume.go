package save

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/wdlrun/wdlrun/checkpoint"
)

// ResumeHint says of an error which names path, if no checkpoint was found there, what
// else to give.
func ResumeHint(err error, path string) error {
	advice := ""
	if errors.Is(err, fs.ErrNotExist) && !checkpoint.IsCheckpoint(path) {
		advice = "; give the run directory of a training that has saved, or one of its checkpoints"
		if run := newestRun(path); run != "" {
			advice = "; give one of the run directories in it, of which " + run + " is the newest that has saved"
		}
	}
	return fmt.Errorf("wdl: resume: %w%s", err, advice)
}

// newestRun names the last by name of the run directories in dir that have a checkpoint, ""
// if there is none.
func newestRun(dir string) string {
	runs, _ := os.ReadDir(dir) // of what cannot be read there is nothing to tell
	for _, r := range slices.Backward(runs) {
		if found, err := checkpoint.List(filepath.Join(dir, r.Name(), checkpoint.Folder)); err == nil && len(found) > 0 {
			return r.Name()
		}
	}
	return ""
}

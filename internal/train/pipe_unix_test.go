//go:build unix

package train

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/save"
)

// TestAPipeIsNoFileOfARun: if any file that is read at the start is a pipe, the start fails
// instead of blocking.
func TestAPipeIsNoFileOfARun(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{rundir.FileCommits, rundir.FileMode, rundir.FileChaos, rundir.FileResult, "index"} {
		fatal.If(t, syscall.Mkfifo(filepath.Join(dir, name), 0o600))
	}
	for name, read := range map[string]func() error{
		"index":            func() error { _, err := input.LoadIndex(filepath.Join(dir, "index")); return err },
		"/dev/zero":        func() error { _, err := input.LoadIndex("/dev/zero"); return err },
		rundir.FileCommits: func() error { _, err := save.ReadCommits(dir); return err },
		rundir.FileMode:    func() error { _, err := save.ReadModes(dir); return err },
		rundir.FileChaos:   func() error { _, err := readInjected(dir); return err },
	} {
		var path *fs.PathError
		if err := read(); !errors.As(err, &path) || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

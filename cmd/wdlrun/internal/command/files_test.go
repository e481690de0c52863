package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestASweepFolderIsNoForeignLink: a folder of a sweep is no link that another user can have made.
func TestASweepFolderIsNoForeignLink(t *testing.T) {
	sweep, away := t.TempDir(), t.TempDir()
	trial := filepath.Join(sweep, "trial-0001")
	fatal.If(t, os.Symlink(away, trial))
	fatal.If(t, MakeFolder(trial)) // a trial that this user keeps on another disk
	fatal.If(t, os.Chmod(sweep, 0o777))
	if err := MakeFolder(trial); err == nil || !strings.Contains(err.Error(), "another user may have made") {
		t.Error(err)
	}
	fatal.If(t, MakeFolder(filepath.Join(sweep, "trial-0002")))
}

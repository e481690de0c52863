package export

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestPartsFollowNoLink: a link with the name of a folder of parts is an error, and the files that
// it leads to stay.
func TestPartsFollowNoLink(t *testing.T) {
	root, away := t.TempDir(), t.TempDir()
	fatal.If(t, os.Symlink(away, partDir(root, 7)))
	for _, name := range []string{PartName(1) + ".bin", PartName(1) + ".json"} {
		fatal.If(t, os.WriteFile(filepath.Join(away, name), []byte("mine"), 0o600))
	}
	err := new(Piece).WritePart(root, 7, 1, nil)
	if err == nil || !strings.Contains(err.Error(), partDir(root, 7)+": it is a symbolic link, not a folder") {
		t.Error(err)
	}
	all, _ := os.ReadDir(away)
	for _, e := range all {
		if b, err := os.ReadFile(filepath.Join(away, e.Name())); err != nil || string(b) != "mine" {
			t.Errorf("%s: %q, %v", e.Name(), b, err)
		}
	}
	if len(all) != 2 {
		t.Errorf("the folder that the link leads to: %v", all)
	}
}

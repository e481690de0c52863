package eval

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/data"
)

// TestOutputNeedsAFolder: the error names the folder, and no temporary file.
func TestOutputNeedsAFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	path, want := filepath.Join(dir, "x.csv"), "cannot create a file in "+dir+": no such file or directory: choose another place"
	if err := writable(data.Target{Path: path}); err == nil || err.Error() != "predict: -out: "+want {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := command.WriteWhole(path, func(io.Writer) error { return nil }); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

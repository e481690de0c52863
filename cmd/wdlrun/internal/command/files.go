package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
)

// CreateNextTo creates a temporary file in the folder of a file.
func CreateNextTo(path string) (*os.File, error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".wdlrun-")
	if err != nil {
		return nil, fmt.Errorf("cannot create a file in %s: %w: choose another place", filepath.Dir(path), rundir.Cause(err))
	}
	return f, nil
}

// WriteWhole writes a file atomically: after an error nothing is left.
func WriteWhole(path string, write func(io.Writer) error) (size int64, err error) {
	f, err := CreateNextTo(path)
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	b := bufio.NewWriter(f)
	if err = write(b); err == nil {
		err = errors.Join(b.Flush(), f.Chmod(0o644))
	}
	if info, e := f.Stat(); e == nil {
		size = info.Size()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	return size, os.Rename(f.Name(), path)
}

// MakeFolder makes a folder of a sweep and rejects a link that another user may have put there.
func MakeFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := regular.OpenFolder(dir)
	if err == nil {
		err = root.Close()
	}
	return err
}

package data

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// writeNew writes a file that must not exist: edits of the user are never overwritten.
func writeNew(path string, b []byte) error {
	f, err := create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(path) // a partial configuration is useless
		return fmt.Errorf("init: %w", err)
	}
	return nil
}

// creatable returns why writeNew cannot write a file, before there is anything to write.
func creatable(path string) error {
	f, err := create(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(path))
}

// isFree returns an error if a file of this name cannot be made.
func isFree(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s exists; remove it first or choose another name", path)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return fmt.Errorf("%s: there is no folder %s: make it, or choose another name", path, filepath.Dir(path))
	}
	return nil
}

func create(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("init: %s exists; remove it first or choose another name", path)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("init: -out %s: there is no folder %s: make it, or choose another name", path, filepath.Dir(path))
	case err != nil:
		return nil, fmt.Errorf("init: %w", err)
	}
	return f, nil
}

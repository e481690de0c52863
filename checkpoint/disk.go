package checkpoint

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// disk contains all operations by which this package changes the file system. Tests replace
// it by a disk that becomes full or stops at the k-th operation.
type disk interface {
	Create(path string) (file, error) // a new, empty file; a missing directory is made, and becomes durable by Sync of its parent
	Rename(from, to string) error
	Remove(path string) error // a file or a whole directory; a missing one is not an error
	Sync(path string) error   // makes the names in a directory or the bytes of a file durable
}

// file is an open file that is being written.
type file interface {
	io.WriteCloser
	Sync() error
}

// system is the disk of the operating system.
type system struct{}

func (system) Create(path string) (file, error) {
	dir := filepath.Dir(path)
	if err := makeDir(filepath.Dir(dir)); err != nil {
		return nil, err
	}
	if err := makeOne(dir); err != nil {
		return nil, err
	}
	// An existing file may still be open in a process that was abandoned. That process must keep
	// the removed file and not write into the new one.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (system) Rename(from, to string) error { return os.Rename(from, to) }

func (system) Remove(path string) error { return os.RemoveAll(path) }

func (system) Sync(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // some network file systems do not support it and do not need it
	}
	return errors.Join(err, d.Close())
}

// makeDir makes dir and its missing ancestors, each made durable in its parent.
func makeDir(dir string) error {
	if st, err := os.Stat(dir); err == nil && st.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	if err := makeOne(dir); err != nil {
		return err
	}
	return system{}.Sync(parent)
}

// makeOne makes a directory if it does not exist.
func makeOne(dir string) error {
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) { // another rank has made it, or a file has its name
		if st, serr := os.Stat(dir); serr == nil && st.IsDir() {
			return nil
		}
	}
	return err
}

// removeTree removes dir one entry at a time. A missing directory is not an error. A file or
// a broken symbolic link is removed itself.
func removeTree(d disk, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	for _, e := range entries {
		if err := d.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return d.Remove(dir)
}

// withoutPath removes the path from an error of the disk, for a message that contains the path
// already.
func withoutPath(path string, err error) error {
	if e, ok := err.(*fs.PathError); ok && e.Path == path {
		return e.Err
	}
	return err
}

// advice returns what to do about err, or "".
func advice(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return " (free some space there; checkpoints committed before are untouched)"
	case errors.Is(err, fs.ErrPermission):
		return " (choose a directory that this user may write to)"
	}
	return ""
}

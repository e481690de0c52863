package checkpoint

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// disk is every way in which this package changes the file system. Tests put
// one in its place that fills up, or that stops at the k-th operation.
type disk interface {
	Create(path string) (file, error) // a new, empty file, in a directory made where missing, which Sync of what it is in makes durable
	Rename(from, to string) error
	Remove(path string) error // with all that it holds; one that is not there is no error
	Sync(path string) error   // makes the names in a directory, or the bytes of a file, durable
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
	// A file left there may still be open in a process that was given up; it
	// must keep its own, nameless file and not write into the new one.
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
		err = nil // some network file systems have no such thing and need none
	}
	return errors.Join(err, d.Close())
}

// makeDir makes dir and its missing ancestors, each durable in its parent.
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

// makeOne makes a directory that may be there.
func makeOne(dir string) error {
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) { // another rank was faster, or a file is in the way
		if st, serr := os.Stat(dir); serr == nil && st.IsDir() {
			return nil
		}
	}
	return err
}

// removeTree removes dir one entry at a time. A directory that is not there is
// no error. A file, or a symbolic link that leads nowhere, is removed itself.
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

// bare is an error of the disk without the path, for a message that has it already.
func bare(path string, err error) error {
	if e, ok := err.(*fs.PathError); ok && e.Path == path {
		return e.Err
	}
	return err
}

// advice says what to do about err, where that is known.
func advice(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return " (free some space there; checkpoints committed before are untouched)"
	case errors.Is(err, fs.ErrPermission):
		return " (choose a directory that this user may write to)"
	}
	return ""
}

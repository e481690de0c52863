package checkpoint

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
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
	dir, name := filepath.Split(path)
	at, err := openFolder(filepath.Clean(dir), true)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	// An existing file may still be open in a process that was abandoned. That process must keep
	// the removed file and not write into the new one.
	if err := at.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, regular.WithPath(path, err)
	}
	f, err := at.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) && at.Remove(name) == nil { // the server has received the request twice
		f, err = at.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	}
	if err != nil {
		return nil, regular.WithPath(path, err)
	}
	return f, nil
}

// Rename renames a file or folder in its folder, to is below the same one. In a turn it may also
// come from the folder above, or go there.
func (system) Rename(from, to string) error {
	above := filepath.Dir(from)
	if isTurn(above) && filepath.Dir(to) == withoutTurn(above) {
		above = withoutTurn(above)
	}
	at, err := openFolder(above, false)
	if err != nil {
		return err
	}
	defer at.Close()
	names := [2]string{}
	for i, path := range []string{from, to} {
		if names[i], err = filepath.Rel(above, path); err != nil {
			return err
		}
	}
	err = regular.RenameIn(at, names[0], names[1])
	if e := (*os.LinkError)(nil); errors.As(err, &e) {
		err = &os.LinkError{Op: e.Op, Old: from, New: to, Err: e.Err}
	}
	return err
}

func (system) Remove(path string) error {
	at, err := openFolder(filepath.Dir(path), false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer at.Close()
	err = at.RemoveAll(filepath.Base(path))
	if _, e := at.Lstat(filepath.Base(path)); errors.Is(e, fs.ErrNotExist) {
		return nil
	}
	return regular.WithPath(path, err)
}

// openFolder opens a root, or a folder of this package in a root, to change files in it. Other
// users may write to a root. They must not choose what is changed or removed, so a folder of
// this package is never a symbolic link here. See regular.OpenFolder for the root. Folders that
// are missing are made if create is set.
func openFolder(dir string, create bool) (*os.Root, error) {
	if isTurn(dir) {
		return openTurn(dir, create)
	}
	parent, name := filepath.Split(dir)
	if _, isStep := parseStep(strings.TrimPrefix(name, oldPrefix)); !isStep && !isTemporary(name) {
		if create {
			if err := makeDir(dir); err != nil {
				return nil, err
			}
		}
		return regular.OpenFolder(dir)
	}
	root, err := openFolder(filepath.Clean(parent), create)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if create {
		return regular.MakeFolder(root, name)
	}
	return regular.Subfolder(root, name)
}

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
	if err != nil { // another rank has made it, or the server has received the request twice, or a file has its name
		if st, serr := os.Stat(dir); serr == nil && st.IsDir() {
			return nil
		}
	}
	return err
}

// removeTree removes a folder of this package one entry at a time. A missing one is not an error.
// A symbolic link or a file with its name is one.
func removeTree(d disk, dir string) error {
	at, err := openFolder(dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer at.Close()
	f, err := at.Open(".")
	if err != nil {
		return regular.WithPath(dir, err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return regular.WithPath(dir, err)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := d.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return d.Remove(dir)
}

// removeOld removes what publish has replaced: a folder, or the link to one.
func removeOld(d disk, dir string) error {
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		return d.Remove(dir)
	}
	return removeTree(d, dir)
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

func writeFile(d disk, path string, b []byte) error {
	f, err := d.Create(path)
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close()) // both errors contain the path
}

// openTurn opens the folder of a turn. If the root has none, because a user has removed it, it is
// made with create.
func openTurn(dir string, create bool) (*os.Root, error) {
	if err := checkTurn(dir); err != nil {
		return nil, err
	}
	root, err := openFolder(withoutTurn(dir), create)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if create && !there(dir) {
		return regular.MakeFolder(root, filepath.Base(dir))
	}
	return regular.Subfolder(root, filepath.Base(dir))
}

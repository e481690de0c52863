package regular

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Create makes a new file for writing in place of what has its name: a link itself is removed,
// not what it leads to, and a process that has the old file open keeps it.
func Create(path string, mode fs.FileMode) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
}

// WriteFile writes a new file, see Create. After an error there is none.
func WriteFile(path string, b []byte, mode fs.FileMode) error {
	f, err := Create(path, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(path)
	}
	return err
}

// OpenFile is os.OpenFile for a file that is changed in place. It rejects a symbolic link and a
// file that has further names: another user may have made either, to have another file changed.
// flag must not contain os.O_TRUNC.
func OpenFile(path string, flag int, mode fs.FileMode) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && nofollow == 0 && !info.Mode().IsRegular() {
		return nil, other(path, info.Mode(), "a regular file")
	}
	f, err := os.OpenFile(path, flag|nofollow|nonblock, mode)
	if err != nil {
		if info, e := os.Lstat(path); e == nil && !info.Mode().IsRegular() {
			return nil, other(path, info.Mode(), "a regular file")
		}
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = other(path, info.Mode(), "a regular file")
	case names(info) > 1:
		err = &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("it has %d names (hard links), and a change here would be one there: replace it by a copy of it", names(info))}
	}
	if err != nil {
		f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

// OpenFolder opens a folder to change files in it. It follows a symbolic link with the name of
// the folder only if no other user can have made the link: the link and the folder that contains
// it belong to this user or to root, and other users cannot replace it. Links above it are
// followed.
func OpenFolder(path string) (*os.Root, error) {
	path = filepath.Clean(path)
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		var above fs.FileInfo
		if above, err = os.Stat(filepath.Dir(path)); err == nil && !trusted(info, above) {
			err = &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("it is a symbolic link that another user may have made: put a folder in its place, or let the link and %s belong to you, and to no group or other user that may write (chown -h, chmod go-w)", filepath.Dir(path))}
		}
	} else if err == nil {
		err = same(root, path, info) // it may have been exchanged since it was opened
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// same returns an error if root is not the folder of info.
func same(root *os.Root, path string, info fs.FileInfo) error {
	opened, err := root.Stat(".")
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return other(path, info.Mode(), "a folder")
	case !os.SameFile(opened, info):
		return &fs.PathError{Op: "open", Path: path, Err: errors.New("it was replaced by another folder at this moment")}
	}
	return nil
}

// Subfolder opens a folder in another one. It rejects a symbolic link.
func Subfolder(in *os.Root, name string) (*os.Root, error) {
	path := filepath.Join(in.Name(), name)
	info, err := in.Lstat(name)
	if err == nil && !info.IsDir() {
		err = other(path, info.Mode(), "a folder")
	}
	if err != nil {
		return nil, WithPath(path, err)
	}
	root, err := in.OpenRoot(name)
	if err != nil {
		return nil, WithPath(path, err)
	}
	if err = same(root, path, info); err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// MakeFolder makes a folder in another one, if it is missing, and opens it like Subfolder.
func MakeFolder(in *os.Root, name string) (*os.Root, error) {
	if err := in.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, WithPath(filepath.Join(in.Name(), name), err)
	}
	return Subfolder(in, name)
}

// WithPath returns an error of a method of os.Root, which names a file as seen from its folder,
// with the whole path.
func WithPath(path string, err error) error {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return &fs.PathError{Op: e.Op, Path: path, Err: e.Err}
	}
	return err
}

// other returns the error of a path that is not what is written to.
func other(path string, m fs.FileMode, want string) error {
	return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("it is %s, not %s: another user may have put it there; look at it, and remove it with rm (what a link leads to stays)", kind(m), want)}
}

// Rename is os.Rename, and looks for the result after an error: the server of a network file system
// may receive a request twice, and answer that there is nothing to rename.
func Rename(from, to string) error {
	was, _ := os.Lstat(from)
	err := os.Rename(from, to)
	if err != nil && renamed(was, err, func() (fs.FileInfo, error) { return os.Lstat(to) }) {
		return nil
	}
	return err
}

// RenameIn is Rename within a folder.
func RenameIn(at *os.Root, from, to string) error {
	was, _ := at.Lstat(from)
	err := at.Rename(from, to)
	if err != nil && renamed(was, err, func() (fs.FileInfo, error) { return at.Lstat(to) }) {
		return nil
	}
	return err
}

// lookTime is how long a missing result is looked for. The system may still know from before the
// operation that the new name did not exist.
const lookTime = 5 * time.Second

// renamed reports whether a file has its new name, although the operation failed with cause.
func renamed(was fs.FileInfo, cause error, look func() (fs.FileInfo, error)) bool {
	if was == nil {
		return false
	}
	unclear := errors.Is(cause, fs.ErrNotExist) || errors.Is(cause, syscall.EIO) || errors.Is(cause, syscall.ESTALE)
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		now, err := look()
		if err == nil {
			return os.SameFile(was, now)
		}
		if !unclear || !errors.Is(err, fs.ErrNotExist) || time.Since(begin) >= lookTime {
			return false
		}
	}
}

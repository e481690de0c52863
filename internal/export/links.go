package export

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
)

// link is a version on which the next one builds, and its files as they were written.
type link struct {
	version, taken int64
	files          map[string]fs.FileInfo // by name; a file that could not be examined is missing
}

func newLink(root string, m *Manifest) link {
	l := link{m.Version, m.Taken, map[string]fs.FileInfo{}}
	for _, name := range m.names() {
		if st, err := os.Lstat(filepath.Join(versionDir(root, m.Version), name)); err == nil {
			l.files[name] = st
		}
	}
	return l
}

// check returns why the version is not whole, nil if it is. It reads the files only if they are not
// those that were written.
func (l *link) check(root string) error {
	dir := versionDir(root, l.version)
	st, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("version %d was removed", l.version)
	}
	same := err == nil && st.IsDir() && len(l.files) > 0
	for name, was := range l.files {
		now, err := os.Lstat(filepath.Join(dir, name))
		same = same && err == nil && os.SameFile(now, was) && now.Size() == was.Size() && now.ModTime().Equal(was.ModTime())
	}
	if same {
		return nil
	}
	m, err := verifyVersion(dir)
	if err == nil && (m.Version != l.version || m.Taken != l.taken) {
		err = errors.New("another version has replaced it")
	}
	if err != nil {
		return fmt.Errorf("version %d is damaged: %w", l.version, err)
	}
	*l = newLink(root, m)
	return nil
}

// verifyVersion reads all files of a version and verifies their checksums. It follows no link.
func verifyVersion(dir string) (*Manifest, error) {
	if err := ownFolder(filepath.Dir(dir), filepath.Base(dir), false); err != nil {
		return nil, err
	}
	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	if m.Version != numberOf(dir) {
		return nil, fmt.Errorf("%s is of version %d", manifestName, m.Version)
	}
	for _, f := range m.Files {
		if err := verifyFile(dir, f); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return m, nil
}

// verifyFile maps a file of a version and verifies its checksums.
func verifyFile(dir string, f file) error {
	st, err := os.Lstat(filepath.Join(dir, f.Name))
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return err
	}
	b := &base{dir: dir, manifest: Manifest{Files: []file{f}}}
	b.users.Store(1)
	err = b.tryMap(f)
	return errors.Join(err, b.release())
}

// tryMap maps a file and verifies it. A file that is cut short meanwhile is an error.
func (b *base) tryMap(f file) (err error) {
	defer b.guard(&err, debug.SetPanicOnFault(true))
	_, err = b.mapFile(b.dir, f, nil)
	return err
}

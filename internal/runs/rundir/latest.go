package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// Latest is the name of the link, in a folder of run directories, to the run that finished last.
const Latest = "latest"

// IsLatest reports whether an entry of a folder of run directories is the link Latest.
func IsLatest(e fs.DirEntry) bool { return e.Name() == Latest && e.Type()&fs.ModeSymlink != 0 }

// MarkLatest makes the link Latest beside a run directory lead to it. The link is replaced by a
// rename, so that a process that is killed leaves the old or the new one.
func MarkLatest(dir string) error {
	return links{os.Remove, os.Symlink, regular.Rename}.markLatest(dir)
}

// ErrNotALink is the error of MarkLatest if Latest is a file or folder of the user.
var ErrNotALink = errors.New("is not a link: give it another name")

// links are the operations that change a folder.
type links struct {
	remove          func(name string) error
	symlink, rename func(from, to string) error
}

func (by links) markLatest(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	parent, name := filepath.Split(dir)
	link, made := filepath.Join(parent, Latest), filepath.Join(parent, "."+Latest+"-"+name)
	switch info, err := os.Lstat(link); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink == 0:
		return fmt.Errorf("%s %w", link, ErrNotALink)
	}
	if err := by.remove(made); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a process that was killed
		return err
	}
	if err := by.symlink(name, made); err != nil {
		return err
	}
	if err := by.rename(made, link); err != nil {
		by.remove(made)
		return err
	}
	return nil
}

// LatestOf returns the run directory that finished last in a folder of run directories, "" if none has.
func LatestOf(folder string) string {
	link := filepath.Join(folder, Latest)
	if _, err := os.Readlink(link); err != nil {
		return ""
	}
	return Real(link)
}

// Real returns a path with the link Latest in it replaced by the run directory that it leads to,
// since the link may move while the run is used. Other paths are returned as they are, as is one whose link leads
// to no run directory.
func Real(path string) string {
	rest := ""
	for at := filepath.Clean(path); ; {
		if filepath.Base(at) == Latest {
			if to, err := os.Readlink(at); err == nil {
				if !filepath.IsAbs(to) {
					to = filepath.Join(filepath.Dir(at), to)
				}
				if _, err := os.Stat(to); err != nil {
					return path
				}
				return filepath.Join(to, rest)
			}
		}
		up := filepath.Dir(at)
		if up == at {
			return path
		}
		rest = filepath.Join(filepath.Base(at), rest)
		at = up
	}
}

// Stat returns what is at the path of a run directory. If it is a link that leads nowhere, the error names the
// place.
func Stat(dir string) (os.FileInfo, error) {
	info, err := os.Stat(dir)
	if to, no := os.Readlink(dir); err != nil && no == nil {
		err = fmt.Errorf("%s: the link leads to %s: %w", dir, to, fs.ErrNotExist)
	}
	return info, err
}

package export

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

func versionDir(root string, n int64) string { return filepath.Join(root, strconv.FormatInt(n, 10)) }

// versionsIn lists the versions in a folder, ascending.
func versionsIn(root string) (all []int64, err error) {
	entries, err := os.ReadDir(root)
	for _, e := range entries {
		if n, err := strconv.ParseInt(e.Name(), 10, 64); err == nil && n >= 0 && e.Name()[0] != '+' {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), err
}

// highestIn returns the highest version in a folder, −1 for none.
func highestIn(root string) (int64, error) {
	all, err := versionsIn(root)
	if err != nil || len(all) == 0 {
		return -1, err
	}
	return all[len(all)-1], nil
}

// numberOf returns the number of the version in a folder, −1 if its name is no number.
func numberOf(dir string) int64 {
	n, err := strconv.ParseInt(filepath.Base(dir), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

const tmpPrefix = ".tmp-"

// makeDirs makes a directory and its missing ancestors, each durable in its parent.
func makeDirs(d disk, dir string) error {
	if st, err := os.Stat(dir); err == nil && st.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDirs(d, parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.Sync(parent)
}

// ownFolder makes a folder of root, if create is set, and rejects a symbolic link: what it leads
// to is not to be changed.
func ownFolder(root, name string, create bool) error {
	at, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer at.Close()
	open := regular.Subfolder
	if create {
		open = regular.MakeFolder
	}
	folder, err := open(at, name)
	if err != nil {
		return err
	}
	return folder.Close()
}

// removeTemporary removes what a killed process has left under temporary names. The caller holds the lock.
func removeTemporary(root string, prefixes ...string) error {
	entries, err := os.ReadDir(root)
	for _, e := range entries {
		if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(e.Name(), prefix) }) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(root, e.Name())))
		}
	}
	return err
}

const publishPrefix = ".publish-"

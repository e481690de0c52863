package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// turnPrefix begins the name of a folder below a root that holds what one group of processes
// is writing. There is one such folder at a time. A new group takes it over by renaming it, which
// exactly one group can do. Parts, commits and removals of the old group name the old folder, so
// the server of the file system rejects them from then on, whatever a client has cached.
const turnPrefix = ".turn-"

// ErrTurn is the error if a group has lost its turn.
var ErrTurn = errors.New("another group of processes has taken over these checkpoints; this one can no longer change them")

// InTurn returns the root for a group that has the turn of this name (see TakeTurn), for all
// functions that take a root. With "" it returns root.
func InTurn(root, turn string) string {
	if turn == "" {
		return root
	}
	return filepath.Join(root, turnPrefix+turn)
}

// Turns returns the names of the turns below root: one, or none if no process has taken a turn. More
// than one are the result of a stale list of names.
func Turns(root string) (names []string, err error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if name, ok := strings.CutPrefix(e.Name(), turnPrefix); ok && e.IsDir() {
			names = append(names, name)
		}
	}
	return names, err
}

// isTurn reports whether a path is a root with a turn.
func isTurn(root string) bool { return strings.HasPrefix(filepath.Base(root), turnPrefix) }

// withoutTurn returns the root without the turn.
func withoutTurn(root string) string {
	if isTurn(root) {
		return filepath.Dir(root)
	}
	return root
}

// checkTurn returns ErrTurn if root has a turn that was lost.
func checkTurn(root string) error {
	if !isTurn(root) || there(root) {
		return nil
	}
	if now, err := Turns(withoutTurn(root)); err != nil || len(now) == 0 {
		return err // the root itself was removed
	}
	return ErrTurn
}

// there reports whether a name is in use, also by a link that leads nowhere.
func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

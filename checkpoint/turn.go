package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
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

// FirstTurn returns names, or makes a turn of a fixed name if there are none.
func FirstTurn(root string, names []string) ([]string, error) {
	if len(names) > 0 {
		return names, nil
	}
	err := makeDir(root)
	if err == nil {
		err = makeOne(InTurn(root, "none"))
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: turn: %w%s", err, advice(err))
	}
	return []string{"none"}, nil
}

// TakeTurn renames turns, which Turns or FirstTurn has returned, to one of a new name. Clean then
// removes what was being written. If another group was faster, errors.Is(err, fs.ErrNotExist) holds.
func TakeTurn(root string, from []string, to string) error {
	for i, name := range from {
		at := InTurn(root, to)
		if i > 0 {
			at = delDir(at, int64(i))
		}
		if err := (system{}).Rename(InTurn(root, name), at); err != nil {
			return fmt.Errorf("checkpoint: turn: %w%s", err, advice(err))
		}
	}
	return system{}.Sync(root)
}

// isTurn reports whether a path is a root with a turn.
func isTurn(root string) bool { return strings.HasPrefix(filepath.Base(root), turnPrefix) }

// home returns the root without the turn.
func home(root string) string {
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
	if now, err := Turns(home(root)); err != nil || len(now) == 0 {
		return err // the root itself was removed
	}
	return ErrTurn
}

// openTurn opens the folder of a turn. If the root has none, because a user has removed it, it is
// made with create.
func openTurn(dir string, create bool) (*os.Root, error) {
	if err := checkTurn(dir); err != nil {
		return nil, err
	}
	root, err := openFolder(home(dir), create)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if create && !there(dir) {
		return regular.MakeFolder(root, filepath.Base(dir))
	}
	return regular.Subfolder(root, filepath.Base(dir))
}

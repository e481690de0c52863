package delta

import (
	"fmt"
	"os"
	"path/filepath"
)

// Log is the name of the folder of the log.
const Log = "_delta_log"

// Current is the newest version of a table.
const Current = -1

// Read reads a version of the table in a folder.
func Read(dir string, version int64) (*Table, error) {
	t, err := read(dir, version)
	if err != nil {
		return nil, fmt.Errorf("%s: Delta log: %w", dir, err)
	}
	return t, nil
}

func read(dir string, version int64) (*Table, error) {
	l, err := list(filepath.Join(dir, Log))
	if err != nil {
		return nil, err
	}
	if version > l.last {
		return nil, fmt.Errorf("there is no version %d, the newest is %d", version, l.last)
	}
	if version != Current {
		l.last = version
	}
	s := state{files: map[string]add{}}
	from, err := l.checkpoint(&s)
	if err != nil {
		return nil, err
	}
	for v := from; v <= l.last; v++ {
		if err := l.commit(v, &s); err != nil {
			return nil, err
		}
	}
	return s.table(dir, l.last)
}

// IsTable reports whether a folder has a log.
func IsTable(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, Log))
	return err == nil && info.IsDir()
}

package delta

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Log is the name of the folder of the log.
const Log = "_delta_log"

// Limits of a log.
const (
	maxFiles      = 1 << 20   // current files of a table
	maxLog        = 1 << 21   // names in the folder of the log
	maxCommit     = 256 << 20 // bytes of a commit
	maxCheckpoint = 4 << 30   // bytes of a part of a checkpoint
	maxColumns    = 1 << 16
	maxNesting    = 64 // structs in one another
)

// Table is a version of a table.
type Table struct {
	Version    int64
	Files      []File   // by path
	Columns    []Column // in the order of the schema, without partitions
	Partitions []string // names of the columns whose values the log contains
}

// File is a data file.
type File struct {
	Path    string    // of the file
	Values  []*string // by partition; nil: missing
	Deleted []uint32  // rows, ascending
}

// Column is a column of plain values, lists or maps. Members of structs are columns of their own,
// as in package table.
type Column struct {
	Name string
	In   string // name in the files
}

// ErrUnsupported means that a table is valid but needs something that this package does not know.
var ErrUnsupported = errors.New("not supported")

// unsupported names what is not supported.
type unsupported string

func (e unsupported) Error() string        { return string(e) }
func (e unsupported) Is(target error) bool { return target == ErrUnsupported }

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

// state is the table after some actions.
type state struct {
	files    map[string]add // by path and deletion vector
	protocol *protocol
	meta     *metaData
}

// apply adds one action.
func (s *state) apply(a *action) error {
	switch {
	case a.Add != nil:
		if a.Add.Path == "" {
			return errors.New("a file without a path")
		}
		s.files[a.Add.key()] = *a.Add
		if len(s.files) > maxFiles {
			return fmt.Errorf("more than %d current files; run OPTIMIZE", maxFiles)
		}
	case a.Remove != nil:
		delete(s.files, a.Remove.key())
	case a.MetaData != nil:
		s.meta = a.MetaData
	case a.Protocol != nil:
		s.protocol = a.Protocol
	}
	return nil
}

// table returns the table of a state.
func (s *state) table(dir string, version int64) (*Table, error) {
	if s.protocol == nil || s.meta == nil {
		return nil, errors.New("it names no protocol and schema: a commit is missing")
	}
	if err := s.protocol.check(); err != nil {
		return nil, err
	}
	t := &Table{Version: version, Partitions: s.meta.PartitionColumns}
	physical, err := s.meta.columns(t)
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(s.files)) {
		a := s.files[key]
		f := File{Values: make([]*string, len(physical))}
		if f.Path, err = a.in(dir); err != nil {
			return nil, err
		}
		if v := a.DeletionVector; v != nil {
			if f.Deleted, err = v.rows(dir); err != nil {
				return nil, fmt.Errorf("the deletion vector of %s: %w", a.Path, err)
			}
		}
		for i, name := range physical {
			v, ok := a.PartitionValues[name]
			if !ok {
				return nil, fmt.Errorf("the file %s has no value of the partition column %s", a.Path, t.Partitions[i])
			}
			if v != nil && *v != "" {
				f.Values[i] = v
			}
		}
		t.Files = append(t.Files, f)
	}
	return t, nil
}

// in returns the path of a file: the log contains a URL, usually relative to the table.
func (a *add) in(dir string) (string, error) {
	path, err := url.PathUnescape(a.Path)
	if err != nil {
		return "", fmt.Errorf("the path %q is not a URL: %w", a.Path, err)
	}
	if scheme, rest, ok := strings.Cut(path, ":/"); ok && !strings.Contains(scheme, "/") {
		if scheme != "file" {
			return "", unsupported("the file " + path + " is in another store")
		}
		path = "/" + strings.TrimLeft(rest, "/")
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	if !filepath.IsLocal(path) {
		return "", fmt.Errorf("the path %q leads out of the table", a.Path)
	}
	return filepath.Join(dir, path), nil
}

// IsTable reports whether a folder has a log.
func IsTable(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, Log))
	return err == nil && info.IsDir()
}

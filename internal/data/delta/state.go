package delta

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// state is the table after some actions.
type state struct {
	files    map[string]add // by path and deletion vector
	protocol *protocol
	meta     *metaData
	sidecars []string // that a checkpoint names
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
	case a.Sidecar != nil:
		if s.sidecars = append(s.sidecars, a.Sidecar.Path); len(s.sidecars) > maxSidecars {
			return fmt.Errorf("a checkpoint with more than %d files", maxSidecars)
		}
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

// read applies the actions of a commit. Files that it removes are removed from earlier versions,
// also if it adds them again.
func (s *state) read(r io.Reader) error {
	d := json.NewDecoder(r)
	var added []action
	for n := 1; ; n++ {
		var a action
		err := d.Decode(&a)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("action %d: %w", n, err)
		}
		if a.Add != nil {
			added = append(added, a)
			continue
		}
		if err := s.apply(&a); err != nil {
			return fmt.Errorf("action %d: %w", n, err)
		}
	}
	for i := range added {
		if err := s.apply(&added[i]); err != nil {
			return err
		}
	}
	return nil
}

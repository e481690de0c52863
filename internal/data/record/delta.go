package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/wdlrun/wdlrun/internal/data/delta"
	"github.com/wdlrun/wdlrun/internal/data/table"
)

// delta returns the current files of a Delta table. A partition is a field whose value the log
// contains; folders NAME=VALUE in the table have no meaning.
func (r *resolver) delta(dir string) ([]File, error) {
	t, err := delta.Read(dir)
	if errors.Is(err, delta.ErrUnsupported) {
		root, absent := filepath.Abs(dir)
		if absent != nil {
			return nil, absent
		}
		return nil, fmt.Errorf("%w; %s", err, tableFormats()[0].advice(root, ""))
	}
	if err != nil {
		return nil, err
	}
	outer, err := partitionsOf(dir + "/.")
	if err != nil {
		return nil, err
	}
	files := make([]File, 0, len(t.Files))
	for i := range t.Files {
		info, err := os.Stat(t.Files[i].Path)
		if err != nil {
			return nil, fmt.Errorf("%s: a file of version %d of the Delta table: %w; restore it, or the table", dir, t.Version, err)
		}
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is not a regular file", t.Files[i].Path)
		}
		if err := printable(t.Files[i].Path); err != nil {
			return nil, err
		}
		f := File{Name: t.Files[i].Path, Bytes: info.Size(), size: info.Size(), time: info.ModTime(), Partitions: outer, named: t.Columns}
		for k, name := range t.Partitions {
			p := Partition{Name: name, Missing: t.Files[i].Values[k] == nil}
			if !p.Missing {
				p.Value = *t.Files[i].Values[k]
			}
			if err := printable(p.Name + p.Value); err != nil {
				return nil, fmt.Errorf("%s: a value of the partition column %s has a control character", dir, name)
			}
			f.Partitions = append(f.Partitions[:len(f.Partitions):len(f.Partitions)], p)
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, noFile{fmt.Errorf("%s: version %d of the Delta table has no rows", dir, t.Version)}
	}
	return files, nil
}

// absent is the name of no column: its values are missing.
const absent = "\x00"

// inFile returns the names of columns in a file. A column that was added to the table after the
// file was written has no values in it.
func (f *File) inFile(t *table.File, names []string) []string {
	if f.named == nil {
		return names
	}
	known := make(map[string]string, len(f.named))
	for _, c := range f.named {
		known[c.Name] = c.In
	}
	all := make([]string, len(names))
	for i, name := range names {
		switch in, ok := known[name]; {
		case !ok:
			all[i] = name // a partition
		case t.Has(in):
			all[i] = in
		default:
			all[i] = absent
		}
	}
	return all
}

// readable returns the columns of a file that can be read, and sets those that cannot.
func (f *File) readable(t *table.File) []string {
	f.unread = t.Unread()
	if f.named == nil {
		return t.Columns()
	}
	why := map[string]string{}
	for _, u := range t.Unread() {
		why[u.Name] = u.Why
	}
	f.unread = nil
	names := make([]string, 0, len(f.named))
	for _, c := range f.named {
		if reason, ok := why[c.In]; ok {
			f.unread = append(f.unread, table.Unread{Name: c.Name, Why: reason})
		} else {
			names = append(names, c.Name)
		}
	}
	return names
}

// ofDelta returns the first file of a Delta table among some files, "" if there is none.
func ofDelta(files []File) string {
	for i := range files {
		if files[i].named != nil {
			return files[i].Name
		}
	}
	return ""
}

// inside is the error for a file or folder in a Delta table.
func inside(name, root string) error {
	return fmt.Errorf("%s belongs to the Delta table %s, whose folder also contains rows that the table no longer has; name the folder of the table, whose log lists its current files (data.follow and data.hosts: each cannot read it)",
		name, root)
}

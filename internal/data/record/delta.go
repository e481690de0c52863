package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/delta"
)

// delta returns the current files of a Delta table. A partition is a field whose value the log
// contains; folders NAME=VALUE in the table have no meaning.
func (r *resolver) delta(dir string, version int64) ([]File, error) {
	t, err := delta.Read(dir, version)
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
			why := "restore it, or the table"
			if version != delta.Current && errors.Is(err, fs.ErrNotExist) {
				why = "VACUUM has probably removed the files of this version; name a later one, or the table without a version"
			}
			return nil, fmt.Errorf("%s: a file of version %d of the Delta table: %w; %s", dir, t.Version, err, why)
		}
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is not a regular file", t.Files[i].Path)
		}
		if err := printable(t.Files[i].Path); err != nil {
			return nil, err
		}
		f := File{Name: t.Files[i].Path, Bytes: info.Size(), size: info.Size(), time: info.ModTime(), Partitions: outer, logged: logged{t.Columns, t.Files[i].Deleted, t.Physical}}
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

// versionOf splits the name of a version of a Delta table, DIR@vN, as Databricks writes it. dir is
// empty if the name is none.
func versionOf(name string) (dir string, version int64) {
	dir, number, _ := strings.Cut(name, "@v")
	version, err := strconv.ParseInt(number, 10, 64)
	if err != nil || version < 0 || !delta.IsTable(dir) {
		return "", 0
	}
	return dir, version
}

// noVersion returns the error for the name of a Delta table, @ and something else than a version; nil
// for other names.
func noVersion(name string) error {
	at := strings.LastIndexByte(name, '@')
	if at < 0 || !delta.IsTable(name[:at]) {
		return nil
	}
	return fmt.Errorf("%s: %q is no version of the Delta table; one is written as %s@v12", name, name[at+1:], name[:at])
}

func isVersion(name string) bool {
	dir, _ := versionOf(name)
	return dir != ""
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

package config

import (
	"fmt"
	"sort"

	"github.com/goccy/go-yaml/token"
)

// decoder converts a tree into a Config and collects the faults.
type decoder struct {
	file       string
	schema     grammar
	place      map[string]place // by path: of a scalar, or of a collection's key
	meant      []string         // paths that an unknown key probably meant
	faults     []Fault
	decoded    int  // number of faults of single values, which come first
	readable   bool // the file has a document to check
	saved      bool // possibly written by an earlier version
	unlabelled bool // labels are not read, so that data.fields need not have them
	draft      bool // the result is checked later, see Draft
}

// fault records a fault at a place of the file.
func (d *decoder) fault(at place, path, format string, args ...any) {
	if d.crowded() {
		return
	}
	d.faults = append(d.faults, Fault{d.file, at.line, at.column, path, fmt.Sprintf(format, args...)})
}

// crowded reports that no more faults are kept. Callers then skip the search for similar
// names, the costly part of a fault.
func (d *decoder) crowded() bool { return len(d.faults) >= keptFaults }

// where returns the place of a path, or of the nearest enclosing value.
func (d *decoder) where(path string) place {
	for p := path; ; p = parent(p) {
		if at, ok := d.place[p]; ok {
			return at
		}
		if p == "" {
			break
		}
	}
	if d.file == "" {
		return place{}
	}
	return place{1, 1}
}

// knowsFault reports whether a fault is already known at path, inside it, or at a value that
// contains it. Another fault would only repeat it.
func (d *decoder) knowsFault(path string) bool {
	for _, f := range d.faults[:d.decoded] {
		if within(f.Path, path) || within(path, f.Path) {
			return true
		}
	}
	for _, p := range d.meant {
		if within(path, p) {
			return true
		}
	}
	return false
}

func (d *decoder) err() error {
	if len(d.faults) == 0 {
		return nil
	}
	sort.SliceStable(d.faults, func(i, j int) bool {
		a, b := d.faults[i], d.faults[j]
		if u := a.unknownKey(); u != b.unknownKey() && d.file != "" {
			return u
		}
		return a.Line < b.Line || a.Line == b.Line && a.Column < b.Column
	})
	listOnce(d.faults)
	return &Error{d.faults}
}

// placeOf returns the place of a token.
func placeOf(tk *token.Token) place {
	if tk == nil || tk.Position == nil {
		return place{1, 1}
	}
	return place{max(1, tk.Position.Line), max(1, tk.Position.Column)}
}

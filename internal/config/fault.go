package config

import (
	"fmt"
	"sort"
	"strings"
)

// Fault is one fault of a configuration. Line and Column count from 1; they are 0 if there is
// no file, as with Set and Validate.
type Fault struct {
	File         string
	Line, Column int
	Path         string // such as train.optimizer.dense.kind or features[3].encode
	Msg          string
}

// String returns the place and the message, as compilers print them.
func (f Fault) String() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File + ":")
	}
	if f.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", f.Line, f.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	return b.String() + f.Msg
}

const unknownKey = "unknown key"

// unknownKey reports whether the fault is a misspelt key.
func (f *Fault) unknownKey() bool { return strings.HasPrefix(f.Msg, unknownKey) }

// Error holds all faults of a configuration in the order of lines. Unknown keys come first
// because they can cause other faults.
type Error struct {
	Faults []Fault
}

const (
	shownFaults = 100  // in one message
	keptFaults  = 1000 // faults kept per configuration
)

// Error lists the faults, one per line if there are several.
func (e *Error) Error() string {
	if len(e.Faults) == 1 {
		return "config: " + e.Faults[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "config: %d faults:", len(e.Faults))
	for i, f := range e.Faults {
		if i == shownFaults {
			fmt.Fprintf(&b, "\n  and %d more", len(e.Faults)-i)
			break
		}
		b.WriteString("\n  " + f.String())
	}
	return b.String()
}

// place is the position of a value in the file; zero if there is no file.
type place struct{ line, column int }

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

// parent returns a path without its last key or index.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// within reports whether path is root or is inside root.
func within(path, root string) bool {
	rest, ok := strings.CutPrefix(path, root)
	return ok && (rest == "" || root == "" || rest[0] == '.' || rest[0] == '[')
}

// doubt reports whether a fault is already known at path, inside it, or at a value that
// contains it. Another fault would only repeat it.
func (d *decoder) doubt(path string) bool {
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

// listOnce keeps a list of alternatives only in the first fault that has it. Otherwise many
// faults about the fields of a file would all repeat the list.
func listOnce(faults []Fault) {
	seen := map[string]bool{}
	for i := range faults {
		f := &faults[i]
		at := strings.LastIndex(f.Msg, " (valid: ")
		if at < 0 {
			continue
		}
		if list := f.Msg[at:]; seen[list] {
			f.Msg = f.Msg[:at]
		} else {
			seen[list] = true
		}
	}
}

// quote quotes a piece of the file, shortened if it is long.
func quote(s string) string {
	const most = 60
	if len(s) > most {
		return fmt.Sprintf("%q…", strings.ToValidUTF8(s[:most], ""))
	}
	return fmt.Sprintf("%q", s)
}

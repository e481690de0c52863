package config

import (
	"fmt"
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

// parent returns a path without its last key or index.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// within reports whether path is root or is inside root.
func within(path, root string) bool {
	rest, ok := strings.CutPrefix(path, root)
	return ok && (rest == "" || root == "" || rest[0] == '.' || rest[0] == '[')
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

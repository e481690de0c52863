package data

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/text/nearest"
)

// Late describes the fields of features that no record read by Open has; "" if there are
// none. Use fails if the other records lack them too.
func (d *Dataset) Late() string {
	if d.excuse {
		return ""
	}
	names := make([]string, len(d.late))
	first := without(d.set.Fields, d.late)
	for i, name := range d.late {
		names[i] = strconv.Quote(name)
		if other := nearest.Of(name, first); other != "" {
			names[i] += fmt.Sprintf("; did you mean %q?", other)
		}
	}
	return strings.Join(names, ", ")
}

// Partial describes the columns that the dataset reads and that some of its files do not have.
func Partial(d *Dataset) []string { return d.set.Partial(d.inputs()) }

// Empty returns the names of files without records.
func Empty(d *Dataset) []string { return d.set.Empty }

// Lacks returns the error for features whose field no record has.
func (d *Dataset) Lacks(c *Counts) error {
	if d.excuse || len(d.late) == 0 || len(d.late) == len(c.late) {
		return nil // all have occurred, or are optional
	}
	has := append(without(d.set.Fields, d.late), c.late...)
	return d.valid(d.schema, has)
}

// watched returns the fields whose occurrence a scan checks: late fields and, if records
// name their fields, all fields of features.
func (d *Dataset) watched() []string {
	if !d.set.AnyName() {
		return d.late
	}
	return d.schema.Fields()[d.schema.FirstInput():]
}

// AbsentIn returns the fields of features that no record has a value of, by the counts of
// all records.
func (d *Dataset) AbsentIn(c *Counts) (absent []string) {
	for i, name := range d.schema.Fields() {
		if i >= d.schema.FirstInput() && !c.hasValued(i) && c.Records() > 0 {
			absent = append(absent, name)
		}
	}
	return absent
}

// Absent returns AbsentIn of the counts passed to Use.
func (d *Dataset) Absent() []string { return d.absent }

// First returns the fields of the first records of the first file, for hints about
// misspelt names. It returns nil if the file cannot be read.
func (d *Dataset) First() []string {
	has, err := d.set.NamesIn(0)
	if err != nil {
		return nil // it is only a hint
	}
	return slices.DeleteFunc(slices.Clone(has), func(name string) bool { return name == d.schema.Label.Field && !d.schema.Label.IsNone() })
}

// without returns the fields other than names.
func without(fields, names []string) []string {
	return slices.DeleteFunc(slices.Clone(fields), func(name string) bool { return slices.Contains(names, name) })
}

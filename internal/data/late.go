package data

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/nearest"
)

// Late describes the fields that features need and none of the records has that Open
// read; "" if there is none. Use rejects those that the others lack too.
func (d *Dataset) Late() string {
	if d.excuse {
		return ""
	}
	names := make([]string, len(d.late))
	first := d.without(d.late)
	for i, name := range d.late {
		names[i] = strconv.Quote(name)
		if other := nearest.Of(name, first); other != "" {
			names[i] += fmt.Sprintf("; did you mean %q?", other)
		}
	}
	return strings.Join(names, ", ")
}

// Lacks is the error of features whose field no record has.
func (d *Dataset) Lacks(c *Counts) error {
	if d.excuse || len(d.late) == 0 || len(d.late) == len(c.late) {
		return nil // all have come, or need not
	}
	has := append(d.without(d.late), c.late...)
	return d.valid(d.schema, has)
}

// watched are the fields of which a scan finds out whether they come: late ones, and all
// that features need where any name may come.
func (d *Dataset) watched() []string {
	if !d.set.AnyName() {
		return d.late
	}
	return d.schema.Fields()[d.schema.FirstInput():]
}

// AbsentIn are the fields that features need and of which no record has a value, by the
// counts of all records.
func (d *Dataset) AbsentIn(c *Counts) (absent []string) {
	for i, name := range d.schema.Fields() {
		if i >= d.schema.FirstInput() && !c.hasValued(i) && c.Records() > 0 {
			absent = append(absent, name)
		}
	}
	return absent
}

// Absent is AbsentIn of the counts that are in use.
func (d *Dataset) Absent() []string { return d.absent }

// First are the fields that the first records of the first file have, nil if it cannot be
// read: what to write in the place of a misspelt one.
func (d *Dataset) First() []string {
	has, err := d.set.NamesIn(0)
	if err != nil {
		return nil // it is a hint
	}
	return slices.DeleteFunc(slices.Clone(has), func(name string) bool { return name == d.schema.Label.Field && !d.schema.Label.IsNone() })
}

// without are the fields that are not of these names.
func (d *Dataset) without(names []string) []string {
	return slices.DeleteFunc(slices.Clone(d.set.Fields), func(name string) bool { return slices.Contains(names, name) })
}

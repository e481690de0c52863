package data

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/data/schema"
	"github.com/wdlrun/wdlrun/internal/nearest"
)

// Late describes the fields that features need and none of the records has that Open
// read; "" if there is none. Use refuses those that the others lack too.
func (d *Dataset) Late() string {
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
	if len(d.late) == 0 || len(d.late) == len(c.late) {
		return nil // all have come, or may yet
	}
	has := append(d.without(d.late), c.late...)
	return schema.Joined("data: schema of "+d.set.Files[0].Name, d.schema.Validate(has))
}

// watched are the fields of which a scan finds out whether they come: late ones, and all
// that features need where any name may come.
func (d *Dataset) watched() []string {
	if !d.set.AnyName() {
		return d.late
	}
	return d.schema.Fields()[1:]
}

// Absent are, after Use, the fields that features need and no record has a value of,
// where any name may come, so that Open could not refuse them.
func (d *Dataset) Absent() []string { return d.absent }

// Near is, for each of these names, the most similar field that the first records have,
// "" if none is.
func (d *Dataset) Near(names []string) []string {
	near := make([]string, len(names))
	has, err := d.set.NamesIn(0)
	if err != nil {
		return near // it is a hint
	}
	for i, name := range names {
		near[i] = nearest.Of(name, slices.DeleteFunc(slices.Clone(has), func(other string) bool { return other == name }))
	}
	return near
}

// without are the fields that are not of these names.
func (d *Dataset) without(names []string) []string {
	return slices.DeleteFunc(slices.Clone(d.set.Fields), func(name string) bool { return slices.Contains(names, name) })
}

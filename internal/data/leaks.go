package data

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/signal"
)

// sampled is the number of records of each class that a scan keeps to look for leaks:
// enough for an AUC within .003 at an AUC of .99.
const sampled = 512

// sampleSeed makes the choice of the sample independent of the hold-out.
const sampleSeed = 0x6c65616b

// sampler gathers the sample of a scan.
type sampler struct {
	*signal.Sample
	words []uint64
}

// wants counts row r of block b, and reports whether it belongs to the sample.
func (s *sampler) wants(b int, r int32, one bool) bool {
	return s.Wants(mixed(sampleSeed, uint64(b), uint64(r)), one)
}

// add adds the record checked last, row r of block b.
func (s *sampler) add(c *encode.RowCoder, b int, r int32) {
	s.words = c.AppendWords(s.words[:0])
	s.Add(mixed(sampleSeed, uint64(b), uint64(r)), c.Positive(), s.words)
}

// Leak is a field that reveals the label.
type Leak struct {
	Field string
	signal.Signal
	Shares string // the field of the record from which both this field and a label are computed; "": none
}

func (l Leak) String() string {
	switch l.Shares {
	case "":
		return l.Signal.String()
	case l.Field:
		return "the label is computed from it"
	}
	return fmt.Sprintf("it is computed from %q, like the label", l.Shares)
}

// LeaksIn returns the fields of features that reveal the label, by the counts of all
// records.
func (d *Dataset) LeaksIn(c *Counts) []Leak { return d.leaksOf(c.sample) }

// Leaks returns LeaksIn of the counts passed to Use. It takes about 1 ms per column.
func (d *Dataset) Leaks() []Leak { return d.leaksOf(d.sample) }

func (d *Dataset) leaksOf(sample *signal.Sample) (leaks []Leak) {
	label := d.labelFields()
	for i, column := range d.schema.Columns()[1:] {
		if column.Unused {
			continue
		}
		l := Leak{Field: column.Name}
		if sample != nil {
			l.Signal = sample.Of(i, column.Number)
		}
		for _, field := range d.set.Source.Inputs(column.Name) {
			if slices.Contains(label, field) {
				l.Shares = field
			}
		}
		if l.Shares != "" || l.Leaks() {
			leaks = append(leaks, l)
		}
	}
	return leaks
}

// labelFields returns the fields of a record from which labels are computed.
func (d *Dataset) labelFields() (fields []string) {
	for _, l := range d.schema.All() {
		if !l.IsNone() {
			fields = append(fields, d.set.Source.Inputs(l.Field)...)
		}
	}
	return fields
}

// Leaking describes at most four leaks in one line; "" for none.
func Leaking(leaks []Leak) string {
	const few = 4
	var all []string
	for i, l := range leaks {
		if i == few {
			all = append(all, fmt.Sprintf("and %d more", len(leaks)-few))
			break
		}
		all = append(all, fmt.Sprintf("%q (%s)", l.Field, l))
	}
	if len(all) == 0 {
		return ""
	}
	return "fields that may reveal the label: " + strings.Join(all, ", ") +
		"; remove those that are known only after the event from the features"
}

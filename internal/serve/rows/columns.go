package rows

import (
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Column holds the values of one field, one list per row; a single row counts for all. A
// list of kind None is a missing value.
type Column struct {
	Name  string
	Rows  []value.List
	Fault *Fault // if the values cannot be an input
	Parts bool   // the members of its values are columns
}

// columns is the source of a request that is not encoded as tensors.
type columns struct{ of []*Column }

func (s *columns) IsShared(field int) bool { return s.of[field] == nil || len(s.of[field].Rows) == 1 }

func (s *columns) List(field, i int, l *value.List) {
	switch col := s.of[field]; {
	case col == nil:
		l.Reset()
	case len(col.Rows) == 1:
		*l = col.Rows[0]
	default:
		*l = col.Rows[i]
	}
}

func (s *columns) Single(int) *value.List { return nil }

func (s *columns) missing(field, rows int) (n int64) {
	for i := range rows {
		var l value.List
		if s.List(field, i, &l); l.Kind == value.None {
			n++
		}
	}
	return n
}

func (s *columns) mayHaveLists(field int) bool { return s.of[field] != nil }

// Columns encodes columns as a batch. A column named ExamplesInput has serialised
// tf.Examples.
func (c *Coder) Columns(b *encode.Batch, in []Column) (Counts, error) {
	clear(c.table.of)
	c.counts.New = nil
	rows, ignored, by := -1, 0, []byte(nil)
	var packed *Column
	for i := range in {
		col := &in[i]
		k, ok := c.place[col.Name]
		switch {
		case ok && col.Fault != nil:
			return Counts{}, col.Fault
		case ok:
			if err := sameRows(&rows, &by, []byte(col.Name), len(col.Rows)); err != nil {
				return Counts{}, err
			}
			c.table.of[k] = col
		case isExamples(col.Name):
			packed = col
		case !col.Parts:
			ignored++
			ignore(c, col.Name)
		}
	}
	if packed != nil {
		if by != nil {
			return Counts{}, &Fault{Input: string(by), Row: -1, Why: "cannot be combined with the input " + ExamplesInput + "; put it in every example"}
		}
		all := make([][]byte, len(packed.Rows))
		for i := range packed.Rows {
			l := &packed.Rows[i]
			if l.Kind != value.Text || len(l.Texts) != 1 {
				return Counts{}, &Fault{Input: ExamplesInput, Row: i, Why: `is not a serialised tf.Example, such as {"b64": "…"}`}
			}
			all[i] = l.Texts[0]
		}
		return c.examples(b, all, nil, ignored)
	}
	if rows < 0 {
		var names []string
		for i := range in {
			if !in[i].Parts {
				names = append(names, in[i].Name)
			}
		}
		return Counts{}, c.none(names, c.fields)
	}
	return c.encode(b, &c.table, rows, ignored)
}

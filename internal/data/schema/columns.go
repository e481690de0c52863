package schema

// Column is a field that the label or a feature needs.
type Column struct {
	Name   string
	Number bool // some encoding needs a number
	Unused bool // no feature uses it

	Vector    int    // elements of the vector that it contains, 0: it is none
	Separator string // of these elements
}

// Columns returns the fields that a filled schema needs, each once; the label's first.
func (s Schema) Columns() []Column {
	cols := []Column{{Name: s.Label.Field, Number: s.Label.Threshold != nil || s.Label.IsNumber()}}
	at := map[string]int{}
	if s.Label.IsNone() {
		at[s.Label.Field] = 0 // it is only the field of a feature
	}
	for _, f := range s.Features {
		i, ok := at[f.Field]
		if !ok {
			i = len(cols)
			at[f.Field] = i
			cols = append(cols, Column{Name: f.Field})
		}
		if e, _ := EncodingOf(f.Encode); e.Number() {
			cols[i].Number = true
		} else if e == Vector {
			cols[i].Vector, cols[i].Separator = int(f.Size), f.Separator
		}
		if _, ok := at[f.Weights]; f.Weights != "" && !ok {
			at[f.Weights] = len(cols)
			cols = append(cols, Column{Name: f.Weights})
		}
	}
	at[s.Label.Field] = 0
	for _, t := range s.Targets() {
		i, ok := at[t.Field]
		if !ok {
			i = len(cols)
			at[t.Field] = i
			cols = append(cols, Column{Name: t.Field, Unused: true})
		}
		cols[i].Number = true
	}
	if _, ok := at[s.HoldOut]; s.HoldOut != "" && !ok {
		cols = append(cols, Column{Name: s.HoldOut, Unused: true})
	}
	return cols
}

// Fields returns the names of Columns.
func (s Schema) Fields() []string {
	columns := s.Columns()
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return names
}

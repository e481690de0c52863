package export

import (
	"slices"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/schema"
)

// The types of inputs.
const (
	typeNumber  = "number"
	typeInteger = "integer"
	typeDate    = "date"
	typeText    = "text"
)

// inputs lists the fields of a record that a model reads, in the order of its features.
// For a derived column they are the fields of its expression.
func inputs(c *config.Config) (all []Input) {
	add := func(in Input) {
		i := slices.IndexFunc(all, func(x Input) bool { return x.Field == in.Field })
		if i < 0 {
			all = append(all, in)
			return
		}
		x := &all[i]
		if x.Type != in.Type {
			x.Type = typeText // suits both
		}
		x.List = x.List || in.List
		for _, f := range in.Features {
			if !slices.Contains(x.Features, f) {
				x.Features = append(x.Features, f)
			}
		}
	}
	src := c.Data
	src.Where = "" // it selects training records
	for _, f := range c.Features {
		in := Input{Field: f.Field, Features: []string{f.Name}, Type: typeOf(f), List: f.Separator != "" || f.Pairs != "" || f.Size > 0}
		if !slices.ContainsFunc(src.Derive, func(d schema.Derived) bool { return d.Name() == f.Field }) {
			add(in)
		} else {
			for _, field := range src.Reads([]string{f.Field}) {
				add(Input{Field: field, Features: in.Features, Type: typeText})
			}
		}
		if f.Weights != "" {
			add(Input{Field: f.Weights, Features: in.Features, Type: typeNumber, List: true})
		}
	}
	return all
}

func typeOf(f schema.Feature) string {
	switch e, _ := schema.EncodingOf(f.Encode); {
	case e == schema.ID && f.Pairs == "":
		return typeInteger
	case e.Date():
		return typeDate
	case e.Number(), e == schema.Vector:
		return typeNumber
	}
	return typeText
}

// outputs lists the predictions of a model.
func outputs(c *config.Config) (all []Output) {
	s := schema.Schema{Label: c.Label, Labels: c.Labels}
	for _, l := range s.All() {
		out := Output{Label: l.Field, Kind: "probability"}
		if l.IsPoisson() {
			out.Kind = "rate"
		} else if l.IsNumber() {
			out.Kind = "number"
		}
		all = append(all, out)
	}
	return all
}

package step

import (
	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse"
)

// ConfigOf returns the filled configuration with which a checkpoint was written. With nil, the constants of optimizers
// are taken to be the same as now.
type ConfigOf func(c *checkpoint.Checkpoint) (*config.Config, error)

// rescale returns what keeps the values of the records of a table, which the source calls name, although the constants
// of ftrl have changed; nil: nothing has to.
func rescale(now sparse.Table, name string, was *config.Config) func(record []float32) {
	var all []func(record []float32)
	for i, at := range places(now.Parts) {
		r := now.Parts[i].Rule
		if old, ok := ruleOf(was, name, now.Parts[i].Name); ok && r.Rescale(old, nil, nil) {
			all = append(all, func(record []float32) { r.Rescale(old, at.value.of(record), at.state.of(record)) })
		}
	}
	if all == nil {
		return nil
	}
	return func(record []float32) {
		for _, f := range all {
			f(record)
		}
	}
}

// ruleOf returns the rule of a part of a table.
func ruleOf(c *config.Config, table, part string) (r optim.Rule, ok bool) {
	for _, t := range c.TablesInUse() {
		rule := t.Wide
		if part == layout.Deep {
			rule = t.Deep
		}
		if t.Name == table && rule != nil {
			return *rule, true
		}
	}
	return r, false
}

// place is the place of a part in a record.
type place struct{ value, state span }

// places returns the places of the parts of a record: their values, followed by their states.
func places(parts []sparse.Part) (all []place) {
	at, width := place{}, widthOf(parts)
	for _, p := range parts {
		at.value.end = at.value.begin + p.Dim
		at.state.end = at.state.begin + p.Rule.StateLen(p.Dim)
		all = append(all, place{at.value, span{width + at.state.begin, width + at.state.end}})
		at.value.begin, at.state.begin = at.value.end, at.state.end
	}
	return all
}

type span struct{ begin, end int }

func (s span) of(record []float32) []float32 { return record[s.begin:s.end] }

func widthOf(parts []sparse.Part) (n int) {
	for _, p := range parts {
		n += p.Dim
	}
	return n
}

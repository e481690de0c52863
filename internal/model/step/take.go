package step

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/config/network"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/sparse"
)

// Origin is a model with other features, from which a new training begins.
type Origin struct {
	Checkpoint *checkpoint.Checkpoint
	Layout     layout.Layout
	Same       func(feature string) bool // the feature has the same keys or numbers in both models
	Retire     int64                     // rows of tables with Evict.Retires whose last gradient was at this step or before are left; 0: none
}

// Match maps the features and tables of a layout to those of a source.
type Match struct {
	Tables  []int // by table: the table of the source with the same rows, or −1
	Fields  []int // by feature with embeddings: its place among those of the source, or −1
	Columns []int // by column of the network's input: the column of the source, or −1

	axes map[string]dense.Axes // of the parameters that belong to inputs
}

// NewMatch matches by name. A table matches if its parts have the same widths and rules and a
// feature uses it whose keys are the same. A feature matches if its table does and Same reports it.
func NewMatch(c *config.Config, l layout.Layout, from Origin) (m Match) {
	was := from.Layout
	for i := range l.Tables {
		used := slices.ContainsFunc(l.Features, func(f layout.Feature) bool { return f.Table == i && from.Same(f.Name) })
		m.Tables = append(m.Tables, slices.IndexFunc(was.Tables, func(t sparse.Table) bool { return used && sameRows(t, l.Tables[i]) }))
	}
	fields, n := map[string]int{}, 0
	for _, f := range was.Features {
		if f.DeepPart >= 0 {
			fields[f.Name] = n
			n++
		}
	}
	for i := range l.Features {
		f := &l.Features[i]
		if f.DeepPart < 0 {
			continue
		}
		dim := l.Tables[f.Table].Parts[f.DeepPart].Dim
		at := slices.IndexFunc(was.Features, func(o layout.Feature) bool {
			return o.Name == f.Name && o.DeepPart >= 0 && o.Table == m.Tables[f.Table] && from.Same(f.Name)
		})
		field := -1
		if at >= 0 {
			field = fields[f.Name]
		}
		m.Fields = append(m.Fields, field)
		for c := range dim {
			if at < 0 {
				c = -1
			} else {
				c += was.Features[at].DeepCol
			}
			m.Columns = append(m.Columns, c)
		}
	}
	for _, name := range l.Dense {
		at := -1
		if i := slices.Index(was.Dense, name); i >= 0 && from.Same(name) {
			at = was.Width - len(was.Dense) + i
		}
		m.Columns = append(m.Columns, at)
	}
	m.axes = m.inputAxes(c, l, was)
	return m
}

// sameRows reports whether the records of two tables have the same keys and shape.
func sameRows(a, b sparse.Table) bool {
	return a.Name == b.Name && slices.EqualFunc(a.Parts, b.Parts, func(x, y sparse.Part) bool {
		return x.Name == y.Name && x.Dim == y.Dim && x.Rule.Default().Kind == y.Rule.Default().Kind
	})
}

// inputAxes returns, by name, the axes of the parameters that belong to inputs of the networks.
func (m *Match) inputAxes(c *config.Config, now, was layout.Layout) map[string]dense.Axes {
	one := map[string]dense.Axes{}
	spec, err := network.New(c.Model, now.Shape())
	if err != nil {
		return one
	}
	of := make([][]int, len(spec.Ops)) // by operation: source of each column of its value; nil: unchanged
	value := func(op int) []int {
		if op == network.Input {
			return m.Columns
		}
		return of[op]
	}
	for i := range spec.Ops {
		o := &spec.Ops[i]
		cols := value(o.In[0])
		switch o.Kind {
		case network.Linear:
			if cols != nil {
				one[o.Params[0].Name] = dense.Axes{Rows: cols}
			}
		case network.CrossLayer:
			mix := dense.Axes{Rows: cols, Cols: cols}
			if o.Rank > 0 {
				one[o.Params[0].Name], mix.Rows = dense.Axes{Rows: cols}, nil
			}
			one[o.Name+"/weight"], one[o.Name+"/bias"] = mix, dense.Axes{Cols: cols}
			of[i] = cols
		case network.CINLayer:
			below := m.Fields
			if op := o.In[1]; op != network.Input {
				below = counted(spec.Ops[op].Maps)
			}
			one[o.Params[0].Name] = dense.Axes{Rows: pairs(below, m.Fields, len(was.Shape().Fields))}
		case network.LayerNorm:
			if of[i] = cols; cols != nil {
				for _, p := range o.Params {
					one[p.Name] = dense.Axes{Cols: cols[:p.Cols], Initial: true}
				}
			}
		case network.Activation, network.Add:
			of[i] = cols
		case network.Multiply:
			of[i] = m.factors(spec, o, value, one)
		}
	}
	all := maps.Clone(one)
	for _, l := range c.Labels {
		for name, axes := range one {
			all[TowerPrefix(l)+name] = axes
		}
	}
	return all
}

// factors returns the columns of a product in one's source. A linear layer that is a factor has the
// columns of the other factor. Those of a new input have their initial values: a product that is 0
// would have no gradients.
func (m *Match) factors(spec *network.Network, o *network.Op, value func(int) []int, one map[string]dense.Axes) (cols []int) {
	for _, v := range o.In {
		if cols = value(v); cols != nil {
			break
		}
	}
	for _, v := range o.In {
		if v == network.Input || value(v) != nil || spec.Ops[v].Kind != network.Linear || cols == nil {
			continue
		}
		for _, p := range spec.Ops[v].Params {
			one[p.Name] = dense.Axes{Rows: one[p.Name].Rows, Cols: cols, Initial: true}
		}
	}
	return cols
}

// counted returns 0 … n−1.
func counted(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// pairs returns the places of the products of maps and fields among those of a source with the
// given number of fields.
func pairs(maps, fields []int, of int) (all []int) {
	for _, i := range maps {
		for _, j := range fields {
			at := -1
			if i >= 0 && j >= 0 {
				at = i*of + j
			}
			all = append(all, at)
		}
	}
	return all
}

// Taken counts what a trainer took from a source.
type Taken struct {
	Rows []int64  // by table: rows on this rank
	Own  []string // names of dense parameters that are new

	Retired int // rows of the source on this rank that were left
}

// Take begins a new model with the rows and layers of a source, on any number of ranks. A new
// input of a layer has zero weights. The optimizer continues after the steps of the source.
func Take(t *Trainer, from Origin, m Match) (taken Taken, err error) {
	c := from.Checkpoint
	if err := c.Read(sectionDense, func(r io.Reader) (err error) {
		taken.Own, err = t.model.arena.Take(r, func(name string) dense.Axes { return m.axes[name] })
		return err
	}); err != nil {
		return taken, err
	}
	if d := t.model.device; d != nil {
		d.newer = false
	}
	store := t.model.store
	t.first = c.Step()
	if past := store.Files().Past(); past != nil && c.Has(sectionPast) {
		if err := c.Read(sectionPast, past.Load); err != nil {
			return taken, err
		}
	}
	taken.Rows = make([]int64, len(m.Tables))
	for table, was := range m.Tables {
		if was < 0 {
			store.Files().SetNow(table, c.Step())
			continue
		}
		if err := LoadTable(store, c.Chain(), table, from.Layout.Tables[was].Name); err != nil {
			return taken, fmt.Errorf("from %s: %w", c.Dir(), err)
		}
	}
	if from.Retire > 0 {
		taken.Retired = store.Files().Retire(from.Retire)
	}
	for _, s := range store.Files().Sections() {
		taken.Rows[s.Table] += int64(s.Rows)
	}
	return taken, copyLoaded(t)
}

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
	ConfigOf   ConfigOf
	Same       func(feature string) (was string, same bool) // a feature with the same keys or numbers in both models, and its name in this one

	Loaded *Trainer // the model of the checkpoint, from which tables are taken where that is possible; nil: from the checkpoint

	Before int64 // steps of the checkpoint that its model has not taken
	Reset  bool  // take no states of optimizers and no numbers of steps
	Tables bool  // take the tables only
	Retire int64 // rows of tables with Evict.Retires whose last gradient was at this step or before are left; 0: none
}

// Match maps the features and tables of a layout to those of a source.
type Match struct {
	Tables  []int   // by table: the table of the source with its rows, or −1
	Parts   [][]int // by table: for each part of a row the part of the source, or −1
	Fields  []int   // by feature with embeddings: its place among those of the source, or −1
	Columns []int   // by column of the network's input: the column of the source, or −1

	axes map[string]dense.Axes // of the parameters that belong to inputs
}

// NewMatch matches a layout with a source. A table gets the rows that its kept features have used;
// if they used several tables, the one with its name. The parts of its rows are matched by name and
// width. A feature matches if Same reports it and its table has its embeddings.
func NewMatch(c *config.Config, l layout.Layout, from Origin) (m Match) {
	was := from.Layout
	feature := func(name string) int {
		old, same := from.Same(name)
		return slices.IndexFunc(was.Features, func(o layout.Feature) bool { return same && o.Name == old })
	}
	for i := range l.Tables {
		t := from.tableOf(l, i, feature)
		m.Tables, m.Parts = append(m.Tables, t), append(m.Parts, nil)
		for _, p := range l.Tables[i].Parts {
			part := -1
			if t >= 0 {
				part = slices.IndexFunc(was.Tables[t].Parts, func(o sparse.Part) bool { return o.Name == p.Name && o.Dim == p.Dim })
			}
			m.Parts[i] = append(m.Parts[i], part)
		}
	}
	fields, n := map[int]int{}, 0
	for i, f := range was.Features {
		if f.DeepPart >= 0 {
			fields[i] = n
			n++
		}
	}
	for i := range l.Features {
		f := &l.Features[i]
		if f.DeepPart < 0 {
			continue
		}
		at, field, first := feature(f.Name), -1, 0
		if at >= 0 && was.Features[at].Table == m.Tables[f.Table] && was.Features[at].DeepPart >= 0 && m.Parts[f.Table][f.DeepPart] >= 0 {
			field, first = fields[at], was.Features[at].DeepCol
		}
		m.Fields = append(m.Fields, field)
		for col := range l.Tables[f.Table].Parts[f.DeepPart].Dim {
			if field < 0 {
				m.Columns = append(m.Columns, -1)
			} else {
				m.Columns = append(m.Columns, first+col)
			}
		}
	}
	for _, name := range l.Dense {
		at := -1
		if old, same := from.Same(name); same {
			if i := slices.Index(was.Dense, old); i >= 0 {
				at = was.Width - len(was.Dense) + i
			}
		}
		m.Columns = append(m.Columns, at)
	}
	m.axes = m.inputAxes(c, l, was)
	return m
}

// tableOf returns the table of the source whose rows table i of a layout gets; −1: none.
func (from Origin) tableOf(l layout.Layout, i int, feature func(name string) int) int {
	of := -1
	for _, f := range l.Features {
		if f.Table != i {
			continue
		}
		if at := feature(f.Name); at >= 0 {
			t := from.Layout.Features[at].Table
			if of < 0 || from.Layout.Tables[t].Name == l.Tables[i].Name {
				of = t
			}
		}
	}
	return of
}

// sameRows reports whether the records of two tables can be copied as they are.
func sameRows(a, b sparse.Table) bool {
	return a.Name == b.Name && a.Values == b.Values && slices.EqualFunc(a.Parts, b.Parts, func(x, y sparse.Part) bool {
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

// Layers returns which parameters of a model keep their own values, and which of the source's nothing takes.
func (m *Match) Layers(now, was []*dense.Param) (own, gone []string) {
	find := func(all []*dense.Param, name string) int {
		return slices.IndexFunc(all, func(p *dense.Param) bool { return p.Name == name })
	}
	fits := func(list []int, now, was int) bool {
		return list == nil && now == was || list != nil && len(list) == now
	}
	for _, p := range now {
		at, by := find(was, p.Name), m.axes[p.Name]
		if at < 0 || !fits(by.Rows, p.Rows, was[at].Rows) || !fits(by.Cols, p.Cols, was[at].Cols) {
			own = append(own, p.Name)
		}
	}
	for _, p := range was {
		if find(now, p.Name) < 0 {
			gone = append(gone, p.Name)
		}
	}
	return own, gone
}

// Taken counts what a trainer took from a source.
type Taken struct {
	Rows []int64  // by table: rows on this rank
	Own  []string // names of dense parameters that are new

	Retired int // rows of the source on this rank that were left
}

// Take begins a new model with the rows and layers of a source, on any number of ranks. A new
// input of a layer has zero weights. Unless it is reset, the optimizer continues after the steps of
// the source.
func Take(t *Trainer, from Origin, m Match) (taken Taken, err error) {
	c := from.Checkpoint
	defer c.Hold()()
	if !from.Tables {
		if err := t.loadDense(c, from.ConfigOf, func(r io.Reader) (err error) {
			taken.Own, err = t.model.arena.Take(r, !from.Reset, func(name string) dense.Axes { return m.axes[name] })
			return err
		}); err != nil {
			return taken, err
		}
	}
	if d := t.model.device; d != nil {
		d.newer = false
	}
	store := t.model.store
	step := int64(0)
	if !from.Reset {
		step = c.Step() - from.Before
		if past := store.Files().Past(); past != nil && c.Has(sectionPast) {
			if err := c.Read(sectionPast, past.Load); err != nil {
				return taken, err
			}
		}
	}
	taken.Rows = make([]int64, len(m.Tables))
	for table, was := range m.Tables {
		switch {
		case was >= 0 && !from.Reset && from.Loaded != nil && store.Files().Adopt(table, from.Loaded.model.store, was):
		case was >= 0 && !from.Reset && sameRows(from.Layout.Tables[was], t.model.layout.Tables[table]):
			err = LoadTable(store, c.Chain(), table, from.Layout.Tables[was].Name, from.Before, from.ConfigOf)
		case was >= 0:
			err = copyTable(store, from, table, from.Layout.Tables[was], m.Parts[table])
		}
		if err != nil {
			return taken, fmt.Errorf("from %s: %w", c.Dir(), err)
		}
		if was < 0 || from.Reset {
			store.Files().SetNow(table, step)
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

// copyTable inserts the rows of a table of the source, on the ranks that own them. Parts that the
// source does not have get initial values. An optimizer state is taken if its rule is the same. The
// age of the rows starts again.
func copyTable(store *sparse.Store, from Origin, table int, was sparse.Table, parts []int) error {
	now := store.Config().Tables[table]
	to, old := places(now.Parts), places(was.Parts)
	shards := store.Shards().Owned()
	var mine func(shard int) bool // nil: the shards of the source have other keys
	if was.Name == now.Name {
		mine = func(shard int) bool { _, found := slices.BinarySearch(shards, shard); return found }
	}
	store.Files().SetNow(table, from.Checkpoint.Step()-from.Before)
	return eachRecord(from.Checkpoint, was, mine, func(_ int, key uint64, record []float32) error {
		return store.Files().Put(table, key, func(rec []float32, _ bool) {
			for i, p := range now.Parts {
				values, state := to[i].value.of(rec), to[i].state.of(rec)
				if parts[i] >= 0 {
					copy(values, old[parts[i]].value.of(record))
				}
				if parts[i] >= 0 && !from.Reset && was.Parts[parts[i]].Rule.Default().Kind == p.Rule.Default().Kind {
					copy(state, old[parts[i]].state.of(record))
					p.Rule.Rescale(was.Parts[parts[i]].Rule, values, state)
				} else {
					p.Rule.InitState(values, state)
				}
			}
		})
	})
}

package wdl

import (
	"slices"

	"github.com/wdlrun/wdlrun/data"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/sparse/table"
	"github.com/wdlrun/wdlrun/wdl/config"
)

// feature is one sparse input with its place in the model.
type feature struct {
	name     string
	table    int            // index into layout.tables
	pooling  sparse.Pooling // of the bag's rows
	deepPart int            // part of the row that is the embedding; −1: not in the deep model
	deepCol  int            // first of its columns in the MLP's input
	widePart int            // part of the row that is the wide weight; −1: not in the wide model
}

// layout says where every input goes: which table and part of a row, which
// columns of the MLP's input. It is a pure function of configuration and
// encoder, so every rank and every restored job has the same.
type layout struct {
	tables   []sparse.Table
	wire     map[string]sparse.Wire // by table
	tiers    []config.Tier          // by table
	features []feature
	dense    int // D dense inputs, the last columns of the MLP's input
	width    int // columns of the MLP's input: ΣE + D
}

// newLayout gives each table the parts that its features need. The embedding
// and the wide weight of one key are parts of one row: one probe, one message.
// c is filled; dense is D.
func newLayout(c *config.Config, columns []data.SparseColumn, dense int) layout {
	l := layout{dense: dense, wire: map[string]sparse.Wire{}}
	index, pools := map[string]int{}, map[string]string{}
	for _, t := range c.TablesInUse() {
		index[t.Name], pools[t.Name] = len(l.tables), t.Pooling
		l.tables = append(l.tables, newTable(c, t))
		l.wire[t.Name] = sparse.Wire{Rows: precision(t.Wire.Rows), Gradients: precision(t.Wire.Gradients)}
		l.tiers = append(l.tiers, t.Tier)
	}
	for _, col := range columns {
		f := feature{name: col.Name, table: index[col.Table], pooling: pooling(pools[col.Table]), deepPart: -1, widePart: -1}
		t := l.tables[f.table]
		if col.Deep {
			f.deepPart, f.deepCol = part(t, "deep"), l.width
			l.width += t.Parts[f.deepPart].Dim
		}
		if col.Wide {
			f.widePart = part(t, "wide")
		}
		l.features = append(l.features, f)
	}
	l.width += dense
	return l
}

func newTable(c *config.Config, s config.Table) sparse.Table {
	t, everyRow := sparse.Table{
		Name: s.Name, Values: s.Values,
		Admit: table.Admit{After: s.Admit.After, Counters: s.Admit.Counters},
		Evict: table.Evict{Age: s.Evict.Age, MaxRows: s.Evict.MaxRows, HalfLife: s.Evict.HalfLife, MinScore: s.Evict.MinScore},
	}, c.Train.L2.Mode == "dense"
	if s.Deep != nil {
		t.Parts = append(t.Parts, sparse.Part{
			Name: "deep", Dim: s.Dim, Rule: *s.Deep, L2: *s.L2.Deep, DenseL2: everyRow,
			Init: sparse.Init{Kind: s.Init.Kind, Scale: s.Init.Scale},
		})
	}
	if s.Wide != nil {
		t.Parts = append(t.Parts, sparse.Part{
			Name: "wide", Dim: 1, Rule: *s.Wide, L2: *s.L2.Wide, DenseL2: everyRow, Init: sparse.Init{Kind: "zero"},
		})
	}
	return t
}

func part(t sparse.Table, name string) int {
	return slices.IndexFunc(t.Parts, func(p sparse.Part) bool { return p.Name == name })
}

func precision(name string) sparse.Precision {
	if name == "bfloat16" {
		return sparse.BF16
	}
	return sparse.FP32
}

func pooling(name string) sparse.Pooling {
	switch name {
	case "mean":
		return sparse.Mean
	case "sqrtn":
		return sparse.SqrtN
	}
	return sparse.Sum
}

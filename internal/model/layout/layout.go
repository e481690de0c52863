// Package layout maps every input of a model to a table and part of a row, and to columns of
// the network's input. Plans, steps and checkpoints use it without depending on each other.
package layout

import (
	"slices"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/config/network"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// Shards is the number of shards of a model's tables, for any number of ranks.
const Shards = 1024

// Feature is one sparse input and its place in the model.
type Feature struct {
	Name     string
	Table    int            // index into Layout.Tables
	Pooling  sparse.Pooling // pooling of the rows of a bag
	DeepPart int            // part of the row with the embedding; −1: not in the deep model
	DeepCol  int            // its first column in the network's input
	WidePart int            // part of the row with the wide weight of the first label, followed by the wide weights of the other labels; −1: not in the wide model
}

// Layout is computed from configuration and encoder only, so it is the same on every rank and
// in every resumed job.
type Layout struct {
	Tables   []sparse.Table
	Asked    []string      // by table: configured strategy, possibly auto
	Tiers    []config.Tier // by table
	Features []Feature
	Dense    []string // names of the D dense inputs: the last columns of the network's input
	Width    int      // columns of the network's input: ΣE + D
}

// New returns the layout. The embedding and the wide weight of a key are parts of one row, so
// that one lookup and one message serve both. c must be filled; dense are the names of the
// dense inputs.
func New(c *config.Config, columns []encode.SparseColumn, dense []string) Layout {
	l := Layout{Dense: dense}
	index, pools := map[string]int{}, map[string]string{}
	for _, t := range c.TablesInUse() {
		index[t.Name], pools[t.Name] = len(l.Tables), t.Pooling
		l.Tables = append(l.Tables, newTable(c, t))
		l.Asked, l.Tiers = append(l.Asked, t.Strategy), append(l.Tiers, t.Tier)
	}
	for _, col := range columns {
		f := Feature{Name: col.Name, Table: index[col.Table], Pooling: pooling(pools[col.Table]), DeepPart: -1, WidePart: -1}
		t := l.Tables[f.Table]
		if col.Deep {
			f.DeepPart, f.DeepCol = partOf(t, "deep"), l.Width
			l.Width += t.Parts[f.DeepPart].Dim
		}
		if col.Wide {
			f.WidePart = partOf(t, "wide")
		}
		l.Features = append(l.Features, f)
	}
	l.Width += len(dense)
	return l
}

// Shape returns the shape of the network's input.
func (l Layout) Shape() network.Shape {
	s := network.Shape{Dense: len(l.Dense)}
	for _, f := range l.Features {
		if f.DeepPart >= 0 {
			s.Fields = append(s.Fields, network.Field{Name: f.Name, Cols: l.Tables[f.Table].Parts[f.DeepPart].Dim})
		}
	}
	return s
}

// Deep is the name of the part of a table with the embeddings.
const Deep = "deep"

func newTable(c *config.Config, s config.Table) sparse.Table {
	t, everyRow := sparse.Table{
		Name: s.Name, Values: s.Values,
		Wire:  sparse.Wire{Rows: precision(s.Wire.Rows), Gradients: precision(s.Wire.Gradients)},
		Admit: table.Admit{After: s.Admit.After, Counters: s.Admit.Counters},
		Evict: table.Evict{Age: s.Evict.Age, MaxRows: s.Evict.MaxRows, HalfLife: s.Evict.HalfLife, MinScore: s.Evict.MinScore, Retires: c.Train.Retain.Days > 0},
	}, c.Train.L2.Mode == "dense"
	if s.Deep != nil {
		t.Parts = append(t.Parts, sparse.Part{
			Name: Deep, Dim: s.Dim, Rule: *s.Deep, L2: *s.L2.Deep, DenseL2: everyRow,
			Init: sparse.Init{Kind: s.Init.Kind, Scale: s.Init.Scale},
		})
	}
	if s.Wide != nil {
		wide := sparse.Part{Name: "wide", Dim: 1, Rule: *s.Wide, L2: *s.L2.Wide, DenseL2: everyRow, Init: sparse.Init{Kind: "zero"}}
		t.Parts = append(t.Parts, wide)
		for _, label := range c.Labels {
			wide.Name = "wide/" + label.Field
			t.Parts = append(t.Parts, wide)
		}
	}
	return t
}

func partOf(t sparse.Table, name string) int {
	return slices.IndexFunc(t.Parts, func(p sparse.Part) bool { return p.Name == name })
}

// Strategy parses tables[].strategy. For auto it returns rows.
func Strategy(name string) (how sparse.Strategy, auto bool) {
	auto = how.UnmarshalText([]byte(name)) != nil
	return how, auto
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

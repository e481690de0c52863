package step

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/trace"
)

// indexOf returns the index of the pulled batch of m, made by n workers in memory with other
// contents.
func indexOf(m *model, n int) (DeviceSize, DeviceIndex) {
	var x indexer
	s := x.measure(m)
	words := func(n int) []uint32 { return slices.Repeat([]uint32{0xa5a5a5a5}, n) }
	d := DeviceIndex{
		Features: make([]DeviceFeature, len(m.layout.Features)), Tables: make([]DeviceTable, len(m.layout.Tables)),
		Offsets: words(s.Offsets), Factors: make([]float32, s.Factors), Place: words(s.Keys), Start: words(s.Keys + 1), Order: words(s.Values),
	}
	for i := range n {
		x.fill(&d, &m.layout, i, n)
	}
	return s, d
}

// TestIndex: Order has each value once, behind the start of its row and in the order of the
// values, and Place and the descriptions of features are those of the Lookup.
func TestIndex(t *testing.T) {
	c := &config.Config{}
	c.Model.EmbeddingDim, c.Model.Hidden, c.Label.Field = 3, []int{4}, "y"
	c.Tables = []config.Table{{Name: "pooled", Strategy: "pooled"}, {Name: "rows", Pooling: "mean"}}
	var columns []encode.SparseColumn
	for i, table := range []string{"rows", "pooled", "other", "rows", "pooled"} {
		name := fmt.Sprint("f", i)
		c.Features = append(c.Features, schema.Feature{Name: name, Field: name, Encode: "id", Table: table, Separator: "|"})
		columns = append(columns, encode.SparseColumn{Name: name, Table: table, Wide: i != 2, Deep: i != 3})
	}
	c.Fill()
	tr, err := NewTrainer(collective.New(mem.New(1, 2)[0]), trace.New(0), c, layout.New(c, columns, nil), Tables{})
	fatal.If(t, err)
	defer tr.Close()
	m, rng := tr.model, rand.New(rand.NewPCG(1, 2))
	for _, shape := range [][2]int{{1, 1}, {0, 3}, {0, 0}, {2, 2}} {
		b := &encode.Batch{Rows: 40}
		for range columns {
			j := encode.Jagged{Offsets: []int32{0}}
			for range b.Rows {
				for range shape[0] + rng.IntN(shape[1]-shape[0]+1) {
					j.Values = append(j.Values, rng.Uint64N(30))
				}
				j.Offsets = append(j.Offsets, int32(len(j.Values)))
			}
			b.Sparse = append(b.Sparse, j)
		}
		m.batch = b
		fatal.If(t, m.pull(b, true))
		s, d := indexOf(m, 1)
		checkIndex(t, m, s, d)
		if _, other := indexOf(m, 3); !slices.Equal(d.Order, other.Order) || !slices.Equal(d.Start, other.Start) || !slices.Equal(d.Place, other.Place) {
			t.Errorf("bags of %v keys: 3 workers make another index", shape)
		}
	}
}

func checkIndex(t *testing.T, m *model, s DeviceSize, d DeviceIndex) {
	t.Helper()
	var at []uint32 // by value
	var tables []int
	for f, v := range m.layout.Features {
		x := m.lookup.Values(f)
		if int(d.Features[f].First) != len(at) || (d.Features[f].Deep == None) != (v.DeepPart < 0) || (d.Features[f].Wide == None) != (v.WidePart < 0) {
			t.Errorf("feature %d: %+v", f, d.Features[f])
		}
		at = append(at, x.At...)
		tables = append(tables, slices.Repeat([]int{v.Table}, len(x.At))...)
		for i, o := range x.Offsets {
			if d.Offsets[int(d.Features[f].Offsets)+i] != uint32(o) {
				t.Errorf("feature %d: offset %d", f, i)
			}
		}
		for i, c := range x.Factors {
			if d.Factors[int(d.Features[f].Factors)+i] != c {
				t.Errorf("feature %d: factor %d", f, i)
			}
		}
	}
	seen := make([]bool, len(at))
	for row, place := range d.Place {
		values := d.Order[d.Start[row]:d.Start[row+1]]
		if len(values) == 0 || !slices.IsSorted(values) {
			t.Fatalf("row %d has the values %v", row, values)
		}
		for _, v := range values {
			table := tables[v]
			if seen[v] || at[v] != place || row < int(d.Tables[table].Row) || table+1 < len(d.Tables) && row >= int(d.Tables[table+1].Row) {
				t.Fatalf("row %d of %+v at %d has value %d, whose row is at %d", row, d.Tables, place, v, at[v])
			}
			seen[v] = true
		}
	}
	if s.Values != len(at) || slices.Contains(seen, false) {
		t.Errorf("%d of %d values", s.Values, len(at))
	}
}

package step

import (
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/sparse"
)

// measure returns the size of the pulled batch and plans its index.
func (x *indexer) measure(m *model) DeviceSize {
	l := &m.layout
	x.values, x.features, x.own = x.values[:0], x.features[:0], x.own[:0]
	x.tables, x.order = resized(x.tables, len(l.Tables)), resized(x.order, len(l.Tables))
	s := DeviceSize{Rows: m.batch.Rows}
	for t := range x.tables {
		x.tables[t] = DeviceTable{Width: uint32(tableWidth(l.Tables[t])), Deep: uint32(deepWidth(l.Tables[t]))}
		x.order[t] = 0
	}
	for f, ft := range l.Features {
		v := m.lookup.Values(f)
		d, t := DeviceFeature{First: uint32(s.Values), Offsets: None, Factors: None, Deep: None, Wide: None}, &x.tables[ft.Table]
		if v.Offsets != nil {
			d.Offsets = uint32(s.Offsets)
			s.Offsets += len(v.Offsets)
		}
		if v.Factors != nil {
			d.Factors = uint32(s.Factors)
			s.Factors += len(v.Factors)
		}
		if ft.DeepPart >= 0 {
			d.Deep = uint32(ft.DeepCol)
		}
		if ft.WidePart >= 0 {
			d.Wide = t.Deep
		}
		x.values, x.features, x.own = append(x.values, v), append(x.features, d), append(x.own, t.Row)
		if v.Numbers == nil {
			t.Row += uint32(len(v.At))
		} else {
			t.Row = uint32(len(v.Places))
		}
		s.Floats = len(v.Rows)
		s.Values += len(v.At)
		x.order[ft.Table] += uint32(len(v.At))
	}
	values := uint32(0)
	for t := range x.tables {
		n := x.tables[t].Row
		x.tables[t].Row = uint32(s.Keys)
		s.Keys += int(n)
		x.order[t], values = values, values+x.order[t]
	}
	x.size = s
	return s
}

// fill writes worker i's part of the index, out of n: the part of its tables. It sorts the values
// of a table by counting. Next holds for each row first its count, then where its next value
// goes, and in the end where the values of the following row begin.
func (x *indexer) fill(to *DeviceIndex, l *layout.Layout, i, n int) {
	if i == 0 {
		copy(to.Features, x.features)
		copy(to.Tables, x.tables)
		to.Start[0] = 0
	}
	for t := i; t < len(x.tables); t += n {
		_, next := x.rows(to, t)
		clear(next)
	}
	for f, v := range x.values {
		t := l.Features[f].Table
		if t%n != i {
			continue
		}
		place, next := x.rows(to, t)
		copy(place, v.Places)
		for _, row := range v.Numbers {
			next[row]++
		}
		for k, own := 0, int(x.own[f]); v.Numbers == nil && k < len(v.At); k++ {
			place[own+k], next[own+k] = v.At[k], 1
		}
	}
	for t := i; t < len(x.tables); t += n {
		_, next := x.rows(to, t)
		at := x.order[t]
		for row, count := range next {
			next[row] = at
			at += count
		}
	}
	for f := range x.values {
		if t := l.Features[f].Table; t%n == i {
			x.place(to, f, t)
		}
	}
}

// rows returns the parts of Place, and of Start behind its first number, for the rows of a table.
func (x *indexer) rows(to *DeviceIndex, t int) (place, next []uint32) {
	end := uint32(x.size.Keys)
	if t+1 < len(x.tables) {
		end = x.tables[t+1].Row
	}
	return to.Place[x.tables[t].Row:end], to.Start[x.tables[t].Row+1 : end+1]
}

// place puts the values of feature f, of table t, in order, and copies its offsets and factors.
func (x *indexer) place(to *DeviceIndex, f, t int) {
	d, v := &x.features[f], &x.values[f]
	_, next := x.rows(to, t)
	for i, row := range v.Numbers {
		to.Order[next[row]] = d.First + uint32(i)
		next[row]++
	}
	for k, own := 0, int(x.own[f]); v.Numbers == nil && k < len(v.At); k++ {
		to.Order[next[own+k]] = d.First + uint32(k)
		next[own+k]++
	}
	if d.Offsets != None {
		copy(to.Offsets[d.Offsets:], raw.Of[uint32](raw.Bytes(v.Offsets)))
	}
	if d.Factors != None {
		copy(to.Factors[d.Factors:], v.Factors)
	}
}

func tableWidth(t sparse.Table) (width int) {
	for _, p := range t.Parts {
		width += p.Dim
	}
	return width
}

// deepWidth returns the number of values of the embedding in a row, which are its first.
func deepWidth(t sparse.Table) int {
	if t.Parts[0].Name == "deep" {
		return t.Parts[0].Dim
	}
	return 0
}

// LikelySize returns the size of a batch of some rows in which each feature has one value and
// no key repeats.
func LikelySize(l layout.Layout, rows int) DeviceSize {
	s := DeviceSize{Rows: rows, Values: rows * len(l.Features), Keys: rows * len(l.Features)}
	for _, f := range l.Features {
		s.Floats += rows * tableWidth(l.Tables[f.Table])
	}
	return s
}

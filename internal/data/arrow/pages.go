package arrow

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/table"
)

// pages are the batches of a group. It implements table.Pages.
type pages struct {
	*File
	at, hi int
	kept
}

// Open implements table.Form.
func (x *File) Open(g int, columns []int) (table.Pages, error) {
	if g < 0 || g >= len(x.groups) {
		return nil, fmt.Errorf("there is no group %d of %d", g, len(x.groups))
	}
	p := &pages{File: x, at: x.groups[g].lo, hi: x.groups[g].hi}
	if x.spare != nil && slices.Equal(x.spare.of, columns) {
		p.kept, x.spare = *x.spare, nil
	} else {
		p.kept = kept{columns, make([]table.Page, len(columns)), make([]memory, len(columns))}
	}
	return p, nil
}

// Next implements table.Pages.
func (p *pages) Next() error {
	if p.at == p.hi {
		return io.EOF
	}
	b, err := p.open(p.batches[p.at], p.fields, false)
	for i := 0; i < len(p.of) && err == nil; i++ {
		c := &p.all[p.of[i]]
		b.memory = &p.memory[i]
		b.memory.used = 0
		if err = b.column(c, p.at, &p.page[i]); err != nil {
			err = fmt.Errorf("column %s: %w", c.Name, err)
		}
	}
	if err != nil {
		return fmt.Errorf("batch %d: %w", p.at, err)
	}
	p.at++
	return nil
}

// Close implements table.Pages.
func (p *pages) Close() { p.spare = &p.kept }

// Page implements table.Pages.
func (p *pages) Page(i int) *table.Page { return &p.page[i] }

// column decodes a column of batch number.
func (b *batch) column(c *column, number int, p *table.Page) error {
	outer := c.leaf
	if c.list != nil {
		outer = c.list
	}
	rows, err := b.valid(append(slices.Clip(c.within), outer), b.rows)
	if err != nil {
		return err
	}
	if c.list == nil {
		p.Rows, p.Levels = b.rows, rows
		return b.values(c, number, b.rows, selection{all: b.rows, valid: rows}, p)
	}
	return b.listed(c, number, rows, p)
}

// valid returns for each of n values whether none of some fields, each a member of the one before, is
// null; nil: none is anywhere.
func (b *batch) valid(fields []*field, n int) (rows []byte, err error) {
	for _, f := range fields {
		has, _, err := b.node(f)
		if err != nil {
			return nil, err
		}
		if has != n {
			return nil, fmt.Errorf("it has %d values, and what it is in has %d", has, n)
		}
		bits, err := b.validity(f, n)
		if err != nil {
			return nil, err
		}
		if bits == nil {
			continue
		}
		if rows == nil {
			rows = make([]byte, n)
			for i := range rows {
				rows[i] = 1
			}
		}
		for i := range rows {
			rows[i] &= bit(bits, i)
		}
	}
	return rows, nil
}

// listed decodes a column of lists; rows says which are not null.
func (b *batch) listed(c *column, number int, rows []byte, p *table.Page) error {
	n, _, err := b.node(c.list.children[0])
	if err != nil {
		return err
	}
	bounds, err := b.bounds(c.list, n)
	if err != nil {
		return err
	}
	there, err := b.valid(append(slices.Clip(c.items), c.leaf), n)
	if err != nil {
		return err
	}
	p.Rows, p.Levels, p.Repeats = b.rows, p.Levels[:0], p.Repeats[:0]
	if p.Levels == nil {
		p.Levels = []byte{}
	}
	var take []int32
	for i := range b.rows {
		lo, hi := 0, 0
		if rows == nil || rows[i] != 0 {
			lo, hi = bounds(i)
		}
		if lo < 0 || hi < lo || hi > n {
			return fmt.Errorf("row %d has values %d to %d of %d", i, lo, hi, n)
		}
		if len(take)+hi-lo > maxBatch {
			return fmt.Errorf("its rows have more than %d values; write smaller batches", maxBatch)
		}
		if lo == hi {
			p.Levels, p.Repeats = append(p.Levels, 0), append(p.Repeats, 0)
		}
		for k := lo; k < hi; k++ {
			level, again := byte(2), byte(1)
			if there != nil && there[k] == 0 {
				level = 1
			} else {
				take = append(take, int32(k))
			}
			if k == lo {
				again = 0
			}
			p.Levels, p.Repeats = append(p.Levels, level), append(p.Repeats, again)
		}
	}
	if take == nil {
		take = []int32{}
	}
	return b.values(c, number, n, selection{take: take, levels: p.Levels, most: 2}, p)
}

// bounds returns a function of the first value of a row, and the one after its last. n is the number of
// all values.
func (b *batch) bounds(f *field, n int) (func(i int) (lo, hi int), error) {
	if f.kind == typeFixedList {
		if f.width < 0 || f.width > n && b.rows > 0 && f.width*b.rows > n {
			return nil, fmt.Errorf("it has %d values, not %d in each of %d rows", n, f.width, b.rows)
		}
		return func(i int) (int, int) { return i * f.width, (i + 1) * f.width }, nil
	}
	first, err := b.buffer(f, 1)
	if err != nil {
		return nil, err
	}
	view := f.kind == typeListView || f.kind == typeLargeListView
	size, count := 4, b.rows+1
	if f.kind == typeLargeList || f.kind == typeLargeListView {
		size = 8
	}
	if view || b.rows == 0 {
		count = b.rows
	}
	if len(first) < size*count {
		return nil, fmt.Errorf("%d bytes of offsets for %d rows", len(first), b.rows)
	}
	if !view {
		return func(i int) (int, int) { return offset(first, i, size), offset(first, i+1, size) }, nil
	}
	sizes, err := b.buffer(f, 2)
	if err == nil && len(sizes) < size*count {
		err = fmt.Errorf("%d bytes of sizes for %d rows", len(sizes), b.rows)
	}
	return func(i int) (lo, hi int) {
		lo = offset(first, i, size)
		if hi = offset(sizes, i, size); lo < 0 || hi < 0 || lo > n || hi > n {
			return -1, -1
		}
		return lo, lo + hi
	}, err
}

// selection selects values of an array: all that are valid, or those in take.
type selection struct {
	all   int
	valid []byte // nil: all are
	take  []int32

	levels []byte // of the page, with take: a value without an entry in the dictionary becomes a null
	most   byte
}

// indexes returns the selected values; nil: all.
func (s *selection) indexes() []int32 {
	if s.take != nil || s.valid == nil {
		return s.take
	}
	s.take = make([]int32, 0, s.all)
	for i, there := range s.valid {
		if there != 0 {
			s.take = append(s.take, int32(i))
		}
	}
	return s.take
}

// count returns the number of selected values.
func (s *selection) count() int {
	if s.take == nil {
		return s.all
	}
	return len(s.take)
}

// values decodes the selected values of an array of n.
func (b *batch) values(c *column, number, n int, s selection, p *table.Page) error {
	take := s.indexes()
	p.Index, p.Dict = nil, 0
	if !c.leaf.indexed {
		stored := &b.memory.stored
		if err := b.gather(c.leaf, taken{n, take}, stored); err != nil {
			return err
		}
		return c.convert.Convert(&p.Values, stored, s.count())
	}
	d, err := b.dictionaryOf(c, number)
	if err != nil {
		return err
	}
	stored := &b.memory.stored
	index := *c.leaf.index
	if index.width == 64 {
		return errors.New("its dictionary has indexes of 64 bits; write it with 32 bits")
	}
	b.places[&index] = b.places[c.leaf]
	if err := b.gather(&index, taken{n, take}, stored); err != nil {
		return err
	}
	p.Values, p.Dict = d.values, d.number
	if p.Index, err = d.indexes(stored.Int32s, &s, p); err != nil {
		return err
	}
	return nil
}

// indexes checks the indexes of values. Those of nulls in the dictionary become nulls.
func (d *dictionary) indexes(all []int32, s *selection, p *table.Page) ([]int32, error) {
	nulls := false
	for i, j := range all {
		if j < 0 || int(j) >= len(d.at) {
			return nil, fmt.Errorf("value %d has the index %d in a dictionary of %d values", i, j, len(d.at))
		}
		if all[i] = d.at[j]; all[i] < 0 {
			nulls = true
		}
	}
	if !nulls {
		return all, nil
	}
	most := max(s.most, 1)
	if p.Levels == nil {
		p.Levels = make([]byte, len(all))
		for i := range p.Levels {
			p.Levels[i] = 1
		}
	}
	kept, i := all[:0], 0
	for k, level := range p.Levels {
		if level != most {
			continue
		}
		if all[i] < 0 {
			p.Levels[k] = most - 1
		} else {
			kept = append(kept, all[i])
		}
		i++
	}
	return kept, nil
}

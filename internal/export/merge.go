package export

import (
	"cmp"
	"slices"

	"github.com/wdlrun/wdlrun/internal/raw"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// Deltas are tables of float32 rows. A row that table.IsUnknown recognises marks a key
// that has lost its row.

// cursor iterates over the rows of a table by ascending hash. It skips keys that a look-up
// does not find because they are in the wrong line.
type cursor struct {
	of     *mapped
	line   uint64   // next line to load
	rest   []hashed // of the loaded line
	sorted []hashed
	keys   []uint64
	hashes []uint64
}

// hashed is the hash of a key and the number of its record.
type hashed struct {
	hash   uint64
	record int
}

// hash returns the hash of the next key. It returns false at the end.
func (c *cursor) hash() (uint64, bool) {
	for len(c.rest) == 0 {
		if c.line == c.of.index.lines() {
			return 0, false
		}
		c.load()
	}
	return c.rest[0].hash, true
}

// load loads the next line.
func (c *cursor) load() {
	first, n := c.of.index.at(c.line)
	c.keys, c.hashes, c.sorted = c.keys[:0], slices.Grow(c.hashes[:0], int(n))[:n], c.sorted[:0]
	for i := range n {
		key, _ := c.of.row(int(first + i))
		c.keys = append(c.keys, key)
	}
	table.Hashes(c.hashes, c.keys, c.of.salt)
	for i, h := range c.hashes {
		if line, _ := lineOf(h, c.of.index.lines()); line == c.line {
			c.sorted = append(c.sorted, hashed{h, int(first) + i})
		}
	}
	slices.SortFunc(c.sorted, func(a, b hashed) int { return cmp.Compare(a.hash, b.hash) })
	c.rest = c.sorted
	c.line++
}

// take returns the next row and advances.
func (c *cursor) take() (key uint64, row []float32) {
	key, b := c.of.row(c.rest[0].record)
	c.rest = c.rest[1:]
	return key, raw.Of[float32](b)
}

// merge calls f with the rows of two tables of one shape by ascending hash. Rows of newer
// replace those of older. complete omits keys that have lost their rows.
func merge(older, newer *mapped, complete bool, f func(hash, key uint64, row []float32) error) error {
	a, b := cursor{of: older}, cursor{of: newer}
	for {
		x, hasX := a.hash()
		y, hasY := b.hash()
		if !hasX && !hasY {
			return nil
		}
		var key uint64
		var row []float32
		h := x
		if hasX && (!hasY || x < y) {
			key, row = a.take()
		} else {
			if hasX && x == y { // the hash is a bijection
				a.take()
			}
			h = y
			key, row = b.take()
		}
		if complete && table.IsUnknown(row) {
			continue
		}
		if err := f(h, key, row); err != nil {
			return err
		}
	}
}

// tableOf returns a table in memory of at most n rows, which each yields by ascending
// hash.
func tableOf(c codec, salt uint64, n int, pause Pause, each func(f func(hash, key uint64, row []float32) error) error) mapped {
	m := mapped{codec: c, salt: salt, records: make([]byte, 0, n*c.record())}
	p := newPlacer(n, c.record(), func(b []byte) error {
		m.records = append(m.records, b...)
		pause.call()
		return nil
	})
	_ = each(func(hash, key uint64, values []float32) error { // cannot fail in memory
		row, err := p.add(hash, key)
		copy(row, raw.Bytes(values))
		return err
	})
	_ = p.end()
	m.n, m.index = int(p.n), p.index
	return m
}

// layerRatio is the minimum ratio of the sizes of a layer and the next. So there are few
// layers, and each row is copied few times until it is in the largest.
const layerRatio = 4

// stacked adds a layer to those of a table, oldest first, and merges those that are not
// layerRatio times larger than the next. It does not change the given layers.
func stacked(layers []mapped, newest mapped, pause Pause) []mapped {
	if newest.n == 0 {
		return layers
	}
	all := append(slices.Clone(layers), newest)
	for n := len(all); n > 1 && all[n-2].n < layerRatio*all[n-1].n; n = len(all) {
		all = append(all[:n-2], folded(&all[n-2], &all[n-1], pause))
	}
	return all
}

// folded merges two layers.
func folded(older, newer *mapped, pause Pause) mapped {
	return tableOf(older.codec, older.salt, older.n+newer.n, pause, func(f func(hash, key uint64, row []float32) error) error {
		return merge(older, newer, false, f)
	})
}

package export

import (
	"slices"

	"github.com/wdlrun/wdlrun/internal/raw"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// Deltas are tables of float32 rows. A row that table.IsUnknown recognises marks a key
// that has lost its row.

// cursor iterates over the rows of a table by ascending hash.
type cursor struct {
	of     *mapped
	next   int // row
	hashes [hashedAhead]uint64
	ahead  int // number of computed hashes
}

const hashedAhead = 128

// hash returns the hash of the next key. It returns false at the end.
func (c *cursor) hash() (uint64, bool) {
	if c.next >= len(c.of.keys) {
		return 0, false
	}
	if c.next == c.ahead {
		n := min(hashedAhead, len(c.of.keys)-c.next)
		table.Hashes(c.hashes[:n], c.of.keys[c.next:c.next+n], c.of.salt)
		c.ahead += n
	}
	return c.hashes[c.next%hashedAhead], true
}

// take returns the next row and advances.
func (c *cursor) take() (key uint64, row []float32) {
	i, width := c.next, c.of.codec.width
	c.next++
	return c.of.keys[i], c.of.values[i*width : (i+1)*width]
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
	m := mapped{codec: c, salt: salt, keys: make([]uint64, 0, n), values: make([]float32, 0, n*c.width)}
	hashes := make([]uint64, 0, n)
	_ = each(func(hash, key uint64, row []float32) error { // cannot fail in memory
		hashes = append(hashes, hash)
		m.keys, m.values = append(m.keys, key), append(m.values, row...)
		if len(m.keys)%pauseRows == 0 {
			pause.call()
		}
		return nil
	})
	b := directoryBits(len(m.keys))
	m.rows, m.shift, m.directory = raw.Bytes(m.values), uint(64-b), directory(hashes, b)
	return m
}

// pauseRows is the number of rows merged between two pauses.
const pauseRows = 1 << 9

// layerRatio is the minimum ratio of the sizes of a layer and the next. So there are few
// layers, and each row is copied few times until it is in the largest.
const layerRatio = 4

// stacked adds a layer to those of a table, oldest first, and merges those that are not
// layerRatio times larger than the next. It does not change the given layers.
func stacked(layers []mapped, newest mapped, pause Pause) []mapped {
	if len(newest.keys) == 0 {
		return layers
	}
	all := append(slices.Clone(layers), newest)
	for n := len(all); n > 1 && len(all[n-2].keys) < layerRatio*len(all[n-1].keys); n = len(all) {
		all = append(all[:n-2], folded(&all[n-2], &all[n-1], pause))
	}
	return all
}

// folded merges two layers.
func folded(older, newer *mapped, pause Pause) mapped {
	return tableOf(older.codec, older.salt, len(older.keys)+len(newer.keys), pause, func(f func(hash, key uint64, row []float32) error) error {
		return merge(older, newer, false, f)
	})
}

package export

import (
	"cmp"
	"slices"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// Deltas are tables of float32 rows. A row that table.IsUnknown recognises marks a key
// that has lost its row.

// cursor iterates over the rows of a table by ascending hash. It skips keys that a lookup
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
	c.sort(int(first))
	c.rest = c.sorted
	c.line++
}

// sort sorts the hashes of a line whose first record is given. It divides them among buckets
// of ascending hashes first, which have two each on average.
func (c *cursor) sort(first int) {
	lines := c.of.index.lines()
	var ends [linePilots + 1]int
	for _, h := range c.hashes {
		if line, rest := lineOf(h, lines); line == c.line {
			ends[bucketOf(rest)+1]++
		}
	}
	largest := slices.Max(ends[:])
	for b := range linePilots {
		ends[b+1] += ends[b]
	}
	c.sorted = slices.Grow(c.sorted[:0], ends[linePilots])[:ends[linePilots]]
	for i, h := range c.hashes {
		if line, rest := lineOf(h, lines); line == c.line {
			b := bucketOf(rest)
			c.sorted[ends[b]] = hashed{h, first + i} // ends[b] is the next free place of the bucket
			ends[b]++
		}
	}
	if largest > maxTogether {
		slices.SortFunc(c.sorted, func(a, b hashed) int { return cmp.Compare(a.hash, b.hash) })
		return
	}
	for i := 1; i < len(c.sorted); i++ {
		x, k := c.sorted[i], i
		for ; k > 0 && c.sorted[k-1].hash > x.hash; k-- {
			c.sorted[k] = c.sorted[k-1]
		}
		c.sorted[k] = x
	}
}

// next returns the next row and advances.
func (c *cursor) next() (key uint64, row []float32) {
	key, b := c.of.row(c.rest[0].record)
	c.rest = c.rest[1:]
	return key, raw.Of[float32](b)
}

// merge calls f with the rows of tables of one shape, oldest first, by ascending hash. The row of
// a key is the one of the newest table that has it. complete omits keys that have lost their
// rows.
func merge(tables []mapped, complete bool, f func(hash, key uint64, row []float32) error) error {
	cursors := make([]cursor, len(tables))
	for i := range tables {
		cursors[i].of = &tables[i]
	}
	for {
		newest, least := -1, uint64(0)
		for i := range cursors {
			if h, ok := cursors[i].hash(); ok && (newest < 0 || h <= least) {
				newest, least = i, h
			}
		}
		if newest < 0 {
			return nil
		}
		for i := range cursors[:newest] {
			if h, ok := cursors[i].hash(); ok && h == least { // the hash is a bijection
				cursors[i].next()
			}
		}
		key, row := cursors[newest].next()
		if complete && table.IsUnknown(row) {
			continue
		}
		if err := f(least, key, row); err != nil {
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
const layerRatio = 3

// addLayer adds a layer to the layers of a table, oldest first, and merges those that are not
// layerRatio times larger than the next. It does not change the given layers.
func addLayer(layers []mapped, newest mapped, pause Pause) []mapped {
	if newest.n == 0 {
		return layers
	}
	from, n := len(layers), newest.n
	for from > 0 && layers[from-1].n < layerRatio*n {
		from--
		n += layers[from].n
	}
	if from == len(layers) {
		return append(slices.Clone(layers), newest)
	}
	return append(slices.Clone(layers[:from]), mergeLayers(append(slices.Clone(layers[from:]), newest), pause))
}

// mergeLayers merges layers, oldest first, at least one.
func mergeLayers(layers []mapped, pause Pause) mapped {
	n := 0
	for i := range layers {
		n += layers[i].n
	}
	return tableOf(layers[0].codec, layers[0].salt, n, pause, func(f func(hash, key uint64, row []float32) error) error {
		return merge(layers, false, f)
	})
}

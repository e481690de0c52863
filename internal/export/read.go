package export

import (
	"runtime/debug"

	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// Read implements step.Rows. It fails if a file was cut short after Open.
func (m *Model) Read(queries []step.Query) (err error) {
	defer m.base.guard(&err, debug.SetPanicOnFault(true))
	var g group
	for _, q := range queries {
		g.add(&m.base.tables[q.Table], q.Keys, q.Values, true)
	}
	g.flush(true)
	for depth, more := 0, true; more; depth++ {
		more = false
		for _, q := range queries {
			if layers := m.layers[q.Table]; depth < len(layers) {
				g.add(&layers[depth], q.Keys, q.Values, false)
				more = true
			}
		}
		g.flush(false)
	}
	return nil
}

// group holds keys that are looked up at once. Each step of a lookup is done for all keys
// before the next step, so that the memory of many keys is fetched concurrently: a group
// waits for memory twice, for lines of indices and for records.
type group struct {
	spans  [groupSpans]span
	used   int // spans
	n      int // keys
	hashes [groupKeys]uint64
	at     [groupKeys]uint32 // record

	// ignored keeps the compiler from dropping loads that only fetch memory.
	ignored uint64
}

const (
	groupKeys  = 256 // their records fit into a first-level cache
	groupSpans = 64
)

// span is the part of a group that belongs to one table.
type span struct {
	of     *mapped
	lo, hi int // in the group
	keys   []uint64
	dst    []float32
}

// add adds keys of a table, whose rows are written to dst. It looks up the keys of the
// group whenever that is full; see flush.
func (g *group) add(of *mapped, keys []uint64, dst []float32, unknown bool) {
	for len(keys) > 0 {
		n := min(len(keys), groupKeys-g.n)
		g.spans[g.used] = span{of: of, lo: g.n, hi: g.n + n, keys: keys[:n], dst: dst[:n*of.codec.width]}
		g.n, g.used = g.n+n, g.used+1
		keys, dst = keys[n:], dst[n*of.codec.width:]
		if g.n == groupKeys || g.used == groupSpans {
			g.flush(unknown)
		}
	}
}

// flush looks up the keys of the group and empties it. Keys without a row are written only
// if unknown is true.
func (g *group) flush(unknown bool) {
	g.find()
	for i := range g.spans[:g.used] {
		s := &g.spans[i]
		s.write(g.at[s.lo:s.hi], unknown)
	}
	g.n, g.used = 0, 0
}

// find finds the only record of each key that may be its own. A loop that compares keys as
// they arrive would wait for each of them, and mispredict branches, so separate loops only
// fetch.
func (g *group) find() {
	ignored := uint64(0)
	for i := range g.spans[:g.used] {
		s := &g.spans[i]
		hashes, index, lines := g.hashes[s.lo:s.hi], s.of.index, s.of.index.lines()
		table.Hashes(hashes, s.keys, s.of.salt)
		for _, h := range hashes {
			line, _ := lineOf(h, lines)
			ignored += uint64(index[line*lineBytes])
		}
	}
	for i := range g.spans[:g.used] {
		s := &g.spans[i]
		if s.of.n == 0 {
			continue
		}
		at, hashes, index, lines := g.at[s.lo:s.hi], g.hashes[s.lo:s.hi], s.of.index, s.of.index.lines()
		last := uint32(s.of.n - 1)
		for k, h := range hashes {
			record, pilot := index.find(h, lines)
			if pilot == anyPlace {
				record = s.of.search(h, s.keys[k])
			}
			at[k] = min(record, last) // a line may have no records
		}
	}
	for i := range g.spans[:g.used] {
		s := &g.spans[i]
		if s.of.n == 0 {
			continue
		}
		records, size := s.of.records, s.of.codec.record()
		for _, record := range g.at[s.lo:s.hi] {
			first := int(record) * size // a record may be in two cache lines
			ignored += uint64(records[first]) + uint64(records[first+size-1])
		}
	}
	g.ignored += ignored
}

// search returns the record of a key, or another one, if the key may be anywhere in its line.
func (m *mapped) search(hash, key uint64) uint32 {
	line, _ := lineOf(hash, m.index.lines())
	first, records := m.index.at(line)
	for i := range records {
		if found, _ := m.row(int(first + i)); found == key {
			return first + i
		}
	}
	return first
}

// write writes the rows of a span.
func (s *span) write(at []uint32, unknown bool) {
	m, width := s.of, s.of.codec.width
	for k, key := range s.keys {
		dst := s.dst[k*width : (k+1)*width]
		if m.n > 0 {
			if found, row := m.row(int(at[k])); found == key {
				m.codec.decode(dst, row)
				continue
			}
		}
		if unknown {
			table.FillUnknown(dst)
		}
	}
}

package export

import (
	"github.com/wdlrun/wdlrun/internal/wdl/step"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// Read implements step.Rows.
func (m *Model) Read(queries []step.Query) {
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
}

// group holds keys that are looked up at once. Each step of a look-up is done for all keys
// before the next step, so that the memory of many keys is fetched concurrently: a group
// waits for memory as often as a single key.
type group struct {
	spans  [groupSpans]span
	used   int // spans
	n      int // keys
	hashes [groupKeys]uint64
	at     [groupKeys]uint32 // row
	end    [groupKeys]uint32 // row after the last one of the bucket

	// ignored keeps the compiler from dropping loads that only fetch memory.
	ignored uint64
}

const (
	groupKeys  = 256 // their rows fit into a first-level cache
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
		s.write(g.at[s.lo:s.hi], g.end[s.lo:s.hi], unknown)
	}
	g.n, g.used = 0, 0
}

// find finds the keys of the group: at is below end if a key has a row. A loop that
// compares keys as they arrive would wait for each of them, and mispredict branches, so
// separate loops only fetch.
func (g *group) find() {
	for i := range g.spans[:g.used] {
		s := &g.spans[i]
		hashes, at, end := g.hashes[s.lo:s.hi], g.at[s.lo:s.hi], g.end[s.lo:s.hi]
		table.Hashes(hashes, s.keys, s.of.salt)
		for k, h := range hashes {
			b := h >> s.of.shift
			at[k], end[k] = s.of.directory[b], s.of.directory[b+1]
		}
	}
	ignored := uint64(0)
	for i := range g.spans[:g.used] {
		s := &g.spans[i]
		at, end, keys := g.at[s.lo:s.hi], g.end[s.lo:s.hi], s.of.keys
		if len(keys) == 0 {
			continue
		}
		last := uint32(len(keys) - 1)
		for k := range at { // the keys of a bucket may be in two lines
			ignored += keys[min(at[k], last)] + keys[min(max(end[k], 1)-1, last)]
		}
	}
	for i := range g.spans[:g.used] {
		s := &g.spans[i]
		at, end, keys := g.at[s.lo:s.hi], g.end[s.lo:s.hi], s.of.keys
		for k, key := range s.keys {
			for at[k] < end[k] && keys[at[k]] != key {
				at[k]++
			}
		}
	}
	for i := range g.spans[:g.used] {
		s := &g.spans[i]
		at, end, rows, stride := g.at[s.lo:s.hi], g.end[s.lo:s.hi], s.of.rows, s.of.codec.stride
		for k := range at {
			if at[k] < end[k] { // a row may be in two lines
				row := int(at[k]) * stride
				ignored += uint64(rows[row]) + uint64(rows[row+stride-1])
			}
		}
	}
	g.ignored += ignored
}

// write writes the rows of a span.
func (s *span) write(at, end []uint32, unknown bool) {
	m, width := s.of, s.of.codec.width
	for k := range at {
		dst := s.dst[k*width : (k+1)*width]
		switch i := int(at[k]); {
		case at[k] >= end[k]:
			if unknown {
				table.FillUnknown(dst)
			}
		case m.values != nil:
			copy(dst, m.values[i*width:])
		default:
			m.codec.decode(dst, m.rows[i*m.codec.stride:][:m.codec.stride])
		}
	}
}

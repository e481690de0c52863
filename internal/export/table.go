package export

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// tableWriter writes the rows of one table. It keeps the rows of a few shards in memory.
type tableWriter struct {
	codec codec
	of    sparse.Table
	w     *writer
	to    *placer // nil until the number of rows can be estimated

	rows   int
	shard  int // current shard
	keys   []uint64
	hashes []uint64
	values []float32
	order  []int32
	half   []f32.BF16
}

// minHeld is the number of rows from which the rows held are written. It suffices to estimate
// how many rows a table has.
const minHeld = 1 << 14

// writeTable writes a table of a checkpoint.
func writeTable(d disk, dir string, i int, c *checkpoint.Checkpoint, of sparse.Table, as precision) (Table, file, error) {
	t := &tableWriter{codec: newCodec(as, of), of: of, w: newWriter(d, dir, tableName(i))}
	err := step.EachRow(c, of, t.add)
	if err == nil {
		err = t.flush(layout.Shards)
	}
	if err != nil {
		_, _ = t.w.close() // the first error is returned
		return Table{}, file{}, fmt.Errorf("table %q: %w", of.Name, err)
	}
	return t.w.endTable(t.to, of.Name, t.codec.width)
}

// endTable writes the rest of a table and closes the file.
func (w *writer) endTable(p *placer, name string, width int) (Table, file, error) {
	_ = p.end() // the writer keeps the error
	w.end("rows", align)
	_ = w.put(p.index)
	w.end("index", align)
	f, err := w.close()
	return Table{Name: name, File: f.Name, Rows: int64(p.n), Width: width, Lines: int64(p.lines)}, f, err
}

// add adds a row. Shards come in order; the shards of a table are ranges of hashes.
func (t *tableWriter) add(shard int, key uint64, values []float32) error {
	if shard != t.shard && len(t.keys) >= minHeld {
		if err := t.flush(t.shard + 1); err != nil {
			return err
		}
	}
	t.shard = shard
	for _, v := range values {
		if most := t.codec.maxValue(); !(v >= -most && v <= most) {
			return fmt.Errorf("the row of key %d has the value %v, at most %v can be written: train with a smaller learning rate or clip_norm", key, v, most)
		}
	}
	if t.rows++; t.rows > maxRows {
		return fmt.Errorf("it has more than %d rows", int64(maxRows))
	}
	t.keys, t.values = append(t.keys, key), append(t.values, values...)
	return nil
}

// flush writes the rows held, which are those up to a shard. Shards have about the same number
// of rows.
func (t *tableWriter) flush(shards int) error {
	if t.to == nil {
		t.to = newPlacer(t.rows*layout.Shards/shards, t.codec.record(), t.w.put)
	}
	t.hashes = slices.Grow(t.hashes[:0], len(t.keys))[:len(t.keys)]
	table.Hashes(t.hashes, t.keys, table.Salt(t.of.Name))
	t.order = t.order[:0]
	for i := range t.keys {
		t.order = append(t.order, int32(i))
	}
	slices.SortFunc(t.order, func(a, b int32) int { return cmp.Compare(t.hashes[a], t.hashes[b]) })
	for _, i := range t.order {
		values := t.values[int(i)*t.codec.width : (int(i)+1)*t.codec.width]
		if t.of.Wire.Rows == sparse.BF16 {
			t.half = roundBF16(t.half, values) // as the training reads them
		}
		row, err := t.to.add(t.hashes[i], t.keys[i])
		if err != nil {
			return err
		}
		t.codec.encode(row, values)
	}
	t.keys, t.values = t.keys[:0], t.values[:0]
	return nil
}

// roundBF16 rounds values to bfloat16 and back, with half as memory, which it returns.
func roundBF16(half []f32.BF16, values []float32) []f32.BF16 {
	half = slices.Grow(half[:0], len(values))[:len(values)]
	f32.ToBF16(half, values)
	f32.FromBF16(values, half)
	return half
}

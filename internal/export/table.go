package export

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/f32"
	"github.com/wdlrun/wdlrun/internal/raw"
	"github.com/wdlrun/wdlrun/internal/wdl/step"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// tableWriter writes the rows of one table. It holds the rows of one shard, and the keys
// of all.
type tableWriter struct {
	codec  codec
	of     sparse.Table
	w      *writer
	keys   []uint64
	hashes []uint64

	shard  int // current shard
	own    []uint64
	values []float32
	order  []int32
	row    []byte
	half   []f32.BF16
}

// writeTable writes a table of a checkpoint.
func writeTable(d disk, dir string, i int, c *checkpoint.Checkpoint, of sparse.Table, as precision) (Table, file, error) {
	t := &tableWriter{codec: newCodec(as, of), of: of, w: newWriter(d, dir, tableName(i))}
	t.row = make([]byte, t.codec.stride)
	err := step.EachRow(c, of, t.add)
	if err == nil {
		err = t.flush()
	}
	if err != nil {
		_, _ = t.w.close() // the first error is returned
		return Table{}, file{}, fmt.Errorf("table %q: %w", of.Name, err)
	}
	t.w.end("rows", align)
	_, _ = t.w.Write(raw.Bytes(t.keys)) // the writer keeps the error
	t.w.end("keys", align)
	b := directoryBits(len(t.keys))
	_, _ = t.w.Write(raw.Bytes(directory(t.hashes, b)))
	t.w.end("directory", align)
	f, err := t.w.close()
	return Table{Name: of.Name, File: f.Name, Rows: int64(len(t.keys)), Width: t.codec.width, Bits: b}, f, err
}

// add adds a row. Shards come in order; those of a table are ranges of hashes.
func (t *tableWriter) add(shard int, key uint64, values []float32) error {
	if shard != t.shard {
		if err := t.flush(); err != nil {
			return err
		}
		t.shard = shard
	}
	for _, v := range values {
		if most := t.codec.most(); !(v >= -most && v <= most) {
			return fmt.Errorf("the row of key %d has the value %v, at most %v can be written: train with a smaller learning rate or clip_norm", key, v, most)
		}
	}
	if len(t.keys)+len(t.own) >= maxRows {
		return fmt.Errorf("it has more than %d rows", int64(maxRows))
	}
	t.own, t.values = append(t.own, key), append(t.values, values...)
	return nil
}

// flush writes the rows of a shard in the order of their hashes.
func (t *tableWriter) flush() error {
	from := len(t.hashes)
	t.hashes = slices.Grow(t.hashes, len(t.own))[:from+len(t.own)]
	hashes, salt := t.hashes[from:], table.Salt(t.of.Name)
	table.Hashes(hashes, t.own, salt)
	t.order = t.order[:0]
	for i := range t.own {
		t.order = append(t.order, int32(i))
	}
	slices.SortFunc(t.order, func(a, b int32) int {
		if hashes[a] < hashes[b] {
			return -1
		}
		return 1
	})
	for _, i := range t.order {
		t.keys = append(t.keys, t.own[i])
		values := t.values[int(i)*t.codec.width : (int(i)+1)*t.codec.width]
		if t.of.Wire.Rows == sparse.BF16 {
			t.half = round(t.half, values) // as the training reads them
		}
		t.codec.encode(t.row, values)
		if _, err := t.w.Write(t.row); err != nil {
			return err
		}
	}
	slices.Sort(hashes)
	t.own, t.values = t.own[:0], t.values[:0]
	return nil
}

// round rounds values to bfloat16 and back, with half as memory, which it returns.
func round(half []f32.BF16, values []float32) []f32.BF16 {
	half = slices.Grow(half[:0], len(values))[:len(values)]
	f32.ToBF16(half, values)
	f32.FromBF16(values, half)
	return half
}

// directoryBits returns the bits of a hash that index a directory of n rows, so that two
// to four rows remain.
func directoryBits(n int) int { return min(maxBits, max(0, bits.Len(uint(n))-2)) }

// directory returns, for each value of the first b bits, the index of the first of the
// ascending hashes with it.
func directory(hashes []uint64, b int) []uint32 {
	d := make([]uint32, 1<<b+1)
	for _, h := range hashes {
		d[h>>(64-b)+1]++
	}
	for i := range d[1:] {
		d[i+1] += d[i]
	}
	return d
}

// mapped is an open table.
type mapped struct {
	codec     codec
	salt      uint64
	shift     uint // 64 − bits of the directory
	rows      []byte
	values    []float32 // rows, if they are float32
	keys      []uint64
	directory []uint32
}

// newMapped returns the table in the three sections at the beginning of b. It checks sizes
// and the directory, so that no lookup is out of range.
func newMapped(c codec, t Table, sections []section, b []byte, pause Pause) (mapped, error) {
	m := mapped{codec: c, salt: table.Salt(t.Name), shift: uint(64 - t.Bits)}
	if c.width != t.Width {
		return m, fmt.Errorf("rows of %d values, the configuration has %d", t.Width, c.width)
	}
	want := [3]int64{padded(t.Rows * int64(c.stride)), padded(8 * t.Rows), padded(4 * (1<<t.Bits + 1))}
	for i, n := range want {
		if s := sections[i]; s.Length != n {
			return m, fmt.Errorf("section %q has %d bytes, %d rows of %d bytes and %d bits of the directory need %d", s.Name, s.Length, t.Rows, c.stride, t.Bits, n)
		}
	}
	m.rows, b = b[:t.Rows*int64(c.stride)], b[want[0]:]
	m.keys, b = raw.Of[uint64](b[:8*t.Rows]), b[want[1]:]
	m.directory = raw.Of[uint32](b[:4*(1<<t.Bits+1)])
	if c.as == float32s {
		m.values = raw.Of[float32](m.rows)
	}
	last := uint32(0)
	for i, at := range m.directory {
		if i%pauseEntries == 0 {
			pause.call()
		}
		if at < last || int64(at) > t.Rows {
			return m, fmt.Errorf("section \"directory\": entry %d is %d, the one before it is %d of %d rows", i, at, last, t.Rows)
		}
		last = at
	}
	if m.directory[0] != 0 || int64(last) != t.Rows {
		return m, fmt.Errorf("section \"directory\": it has the rows %d to %d of %d", m.directory[0], last, t.Rows)
	}
	return m, nil
}

// pauseEntries is the number of directory entries checked between two pauses.
const pauseEntries = 1 << 15

func padded(n int64) int64 { return (n + align - 1) / align * align }

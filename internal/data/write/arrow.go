package write

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"github.com/wdlrun/wdlrun/internal/data/flat"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// arrowBytes is the number of bytes of a column after which a batch ends.
const arrowBytes = 16 << 20

// Numbers of the schema of Arrow.
const (
	arrowMagic     = "ARROW1"
	arrowVersion   = 4 // V5
	arrowInt       = 2
	arrowFloat     = 3
	arrowText      = 5
	arrowBool      = 6
	arrowDate      = 8
	arrowTime      = 9
	arrowTimestamp = 10
	arrowList      = 12
)

// arrowRows writes Arrow IPC files.
type arrowRows struct {
	table
	w       io.Writer
	at      int64 // bytes written
	all     []arrowColumn
	rowsNow int
	blocks  []byte
	pack    *zstd.Encoder // nil: none
}

// arrowColumn is a column of the current batch.
type arrowColumn struct {
	lists   bitmap // which rows have a list
	offsets []byte // of the lists
	values  arrowValues
}

// arrowValues are values with nulls.
type arrowValues struct {
	there   bitmap
	truths  bitmap
	offsets []byte // of strings
	data    []byte
}

type bitmap struct {
	b        []byte
	n, zeros int
}

func (m *bitmap) add(one bool) {
	if m.n%8 == 0 {
		m.b = append(m.b, 0)
	}
	if one {
		m.b[m.n/8] |= 1 << (m.n % 8)
	} else {
		m.zeros++
	}
	m.n++
}

func newArrow(w io.Writer, codec string, t table) (*arrowRows, error) {
	x := &arrowRows{table: t, w: w, all: make([]arrowColumn, len(t.columns))}
	switch codec {
	case "", "zstd":
		var err error
		if x.pack, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1)); err != nil {
			return nil, fmt.Errorf("write: %w", err)
		}
	case "none":
	default:
		return nil, fmt.Errorf("write: Arrow IPC has no compression %s; there are zstd and none", codec)
	}
	for _, c := range t.columns {
		if !utf8.ValidString(c.Name) {
			return nil, fmt.Errorf("write: the name %q is not UTF-8", c.Name)
		}
	}
	x.begin()
	if err := x.put([]byte(arrowMagic + "\x00\x00")); err != nil {
		return nil, err
	}
	_, err := x.message(1, x.schema(), nil)
	return x, err
}

// begin begins a batch.
func (x *arrowRows) begin() {
	x.rowsNow = 0
	for i := range x.all {
		c := &x.all[i]
		c.lists, c.offsets = bitmap{b: c.lists.b[:0]}, append(c.offsets[:0], 0, 0, 0, 0)
		v := &c.values
		v.there, v.truths = bitmap{b: v.there.b[:0]}, bitmap{b: v.truths.b[:0]}
		v.offsets, v.data = append(v.offsets[:0], 0, 0, 0, 0), v.data[:0]
	}
}

// schema returns the table of the schema.
func (x *arrowRows) schema() flat.Table {
	var fields []flat.Table
	for i := range x.columns {
		c := &x.columns[i]
		f := arrowField(c.Name, c)
		if c.Many {
			f = flat.Table{flat.To(c.Name), flat.Of(1, 1), flat.Of(1, arrowList), flat.To(flat.Table{}), {}, flat.To([]flat.Table{arrowField("item", c)})}
		}
		fields = append(fields, f)
	}
	return flat.Table{flat.Of(2, 0), flat.To(fields)}
}

// arrowField returns the field of the values of a column.
func arrowField(name string, c *Column) flat.Table {
	kind, of := arrowText, flat.Table{}
	switch {
	case c.Time != Time{}:
		kind, of = arrowTimes(c.Time)
	case c.Kind == value.Int:
		kind, of = arrowInt, flat.Table{flat.Of(4, 64), flat.Of(1, 1)}
	case c.Kind == value.Float32:
		kind, of = arrowFloat, flat.Table{flat.Of(2, 1)}
	case c.Kind == value.Float64:
		kind, of = arrowFloat, flat.Table{flat.Of(2, 2)}
	case c.Truth:
		kind = arrowBool
	}
	return flat.Table{flat.To(name), flat.Of(1, 1), flat.Of(1, int64(kind)), flat.To(of), {}, flat.To([]flat.Table{})}
}

// arrowTimes returns the type of dates or times.
func arrowTimes(t Time) (kind int, of flat.Table) {
	unit := flat.Of(2, 2)
	if t.Nanos {
		unit = flat.Of(2, 3)
	}
	switch {
	case t.Type == typeDate:
		return arrowDate, flat.Table{flat.Of(2, 0)} // days
	case t.clock():
		return arrowTime, flat.Table{unit, flat.Of(4, 64)}
	case t.zoned():
		return arrowTimestamp, flat.Table{unit, flat.To("UTC")}
	}
	return arrowTimestamp, flat.Table{unit}
}

func (x *arrowRows) Write(lists []value.List) error {
	if err := x.take(lists); err != nil {
		return err
	}
	size := 0
	for i := range x.typed {
		l, c := &x.typed[i], &x.all[i]
		if x.columns[i].Many {
			c.lists.add(l.Places() > 0)
		} else if l.Places() == 0 {
			c.values.null(&x.columns[i])
		}
		for j := range l.All {
			if j < 0 {
				c.values.null(&x.columns[i])
			} else if err := c.values.add(l, j, &x.columns[i]); err != nil {
				return x.fault(i, err.Error())
			}
		}
		c.offsets = binary.LittleEndian.AppendUint32(c.offsets, uint32(c.values.there.n))
		size = max(size, len(c.values.data))
	}
	if x.rowsNow++; x.rowsNow < groupRows && size < arrowBytes {
		return nil
	}
	return x.flush()
}

// null adds a null.
func (v *arrowValues) null(c *Column) {
	v.there.add(false)
	switch {
	case c.Kind == value.Float32 || c.Time.Type == typeDate:
		v.data = append(v.data, 0, 0, 0, 0)
	case c.Kind == value.Int || c.Kind == value.Float64:
		v.data = append(v.data, 0, 0, 0, 0, 0, 0, 0, 0)
	case c.Truth:
		v.truths.add(false)
	default:
		v.offsets = binary.LittleEndian.AppendUint32(v.offsets, uint32(len(v.data)))
	}
}

// add adds value j of a list.
func (v *arrowValues) add(l *value.List, j int, c *Column) error {
	v.there.add(true)
	switch {
	case c.Time.Type == typeDate:
		v.data = binary.LittleEndian.AppendUint32(v.data, uint32(int32(l.Ints[j])))
	case c.Kind == value.Int:
		v.data = binary.LittleEndian.AppendUint64(v.data, uint64(l.Ints[j]))
	case c.Kind == value.Float32:
		v.data = binary.LittleEndian.AppendUint32(v.data, math.Float32bits(float32(l.Reals[j])))
	case c.Kind == value.Float64:
		v.data = binary.LittleEndian.AppendUint64(v.data, math.Float64bits(l.Reals[j]))
	case c.Truth:
		v.truths.add(string(l.Texts[j]) == "true")
	case !utf8.Valid(l.Texts[j]):
		return notUTF8(l.Texts[j])
	default:
		v.data = append(v.data, l.Texts[j]...)
		v.offsets = binary.LittleEndian.AppendUint32(v.offsets, uint32(len(v.data)))
	}
	return nil
}

// notUTF8 is the fault of bytes in a string.
func notUTF8(b []byte) error {
	return fmt.Errorf("holds %q, which is not UTF-8; write csv, tfrecord or parquet, or name the other columns in -fields", b[:min(len(b), 40)])
}

// arrowBody is the body of a batch with its nodes and buffers.
type arrowBody struct {
	pack           *zstd.Encoder
	nodes, buffers flat.Structs
	b              []byte
}

func (o *arrowBody) node(n, nulls int) {
	o.nodes.N++
	o.nodes.Data = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(o.nodes.Data, uint64(n)), uint64(nulls))
}

// buffer adds a buffer, compressed if it has bytes.
func (o *arrowBody) buffer(b []byte) {
	at := len(o.b)
	if o.pack != nil && len(b) > 0 {
		o.b = binary.LittleEndian.AppendUint64(o.b, uint64(len(b)))
		o.b = o.pack.EncodeAll(b, o.b)
	} else {
		o.b = append(o.b, b...)
	}
	o.buffers.N++
	o.buffers.Data = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(o.buffers.Data, uint64(at)), uint64(len(o.b)-at))
	o.b = append(o.b, make([]byte, -len(o.b)&7)...)
}

// flush writes the batch.
func (x *arrowRows) flush() error {
	if x.rowsNow == 0 {
		return nil
	}
	o := &arrowBody{pack: x.pack}
	for i := range x.all {
		c, v := &x.all[i], &x.all[i].values
		if x.columns[i].Many {
			o.node(c.lists.n, c.lists.zeros)
			o.buffer(c.lists.b)
			o.buffer(c.offsets)
		}
		o.node(v.there.n, v.there.zeros)
		o.buffer(v.there.b)
		switch kind := x.columns[i].Kind; {
		case kind == value.Int || kind == value.Float32 || kind == value.Float64:
			o.buffer(v.data)
		case x.columns[i].Truth:
			o.buffer(v.truths.b)
		default:
			o.buffer(v.offsets)
			o.buffer(v.data)
		}
	}
	head := flat.Table{flat.Of(8, int64(x.rowsNow)), flat.To(o.nodes), flat.To(o.buffers)}
	if x.pack != nil {
		head = append(head, flat.To(flat.Table{flat.Of(1, 1), flat.Of(1, 0)})) // ZSTD, by buffer
	}
	at := x.at
	meta, err := x.message(3, head, o.b)
	x.blocks = binary.LittleEndian.AppendUint64(x.blocks, uint64(at))
	x.blocks = binary.LittleEndian.AppendUint64(x.blocks, uint64(meta))
	x.blocks = binary.LittleEndian.AppendUint64(x.blocks, uint64(len(o.b)))
	x.begin()
	return err
}

// message writes a message of a kind, and returns the length of its metadata.
func (x *arrowRows) message(kind int64, head flat.Table, body []byte) (int, error) {
	meta := flat.Build(flat.Table{flat.Of(2, arrowVersion), flat.Of(1, kind), flat.To(head), flat.Of(8, int64(len(body)))})
	begin := binary.LittleEndian.AppendUint32([]byte{0xff, 0xff, 0xff, 0xff}, uint32(len(meta)))
	for _, b := range [][]byte{begin, meta, body} {
		if err := x.put(b); err != nil {
			return 0, err
		}
	}
	return len(begin) + len(meta), nil
}

func (x *arrowRows) put(b []byte) error {
	n, err := x.w.Write(b)
	if x.at += int64(n); err != nil {
		return fmt.Errorf("write: record %d: %w", x.rows, err)
	}
	return nil
}

// Close writes the footer.
func (x *arrowRows) Close() error {
	if err := x.flush(); err != nil {
		return err
	}
	const block = 24
	footer := flat.Build(flat.Table{flat.Of(2, arrowVersion), flat.To(x.schema()), flat.To(flat.Structs{}), flat.To(flat.Structs{N: len(x.blocks) / block, Data: x.blocks})})
	end := append([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, footer...)
	return x.put(append(binary.LittleEndian.AppendUint32(end, uint32(len(footer))), arrowMagic...))
}

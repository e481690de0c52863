package avro

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/table"
)

var errShort = errors.New("its bytes end early")

// reader reads values. After the end all are zero.
type reader struct {
	b     []byte
	at    int // offset of the next value
	short bool
	left  int64 // most items of arrays and maps, and skipped records: they may have no bytes
}

// maxEmpty is the number of items and skipped records without bytes in a record.
const maxEmpty = 1 << 16

func (r *reader) fail() { r.b, r.at, r.short = nil, 0, true }

// rest returns the bytes that have not been read.
func (r *reader) rest() []byte { return r.b[r.at:] }

// long reads an integer in zigzag.
func (r *reader) long() int64 {
	if r.at < len(r.b) && r.b[r.at] < 1<<7 { // most have one byte
		n := int64(r.b[r.at])
		r.at++
		return n>>1 ^ -(n & 1)
	}
	n, size := binary.Varint(r.rest())
	if size <= 0 {
		r.fail()
		return 0
	}
	r.at += size
	return n
}

func (r *reader) next(n int64) []byte {
	if n < 0 || n > int64(len(r.b)-r.at) {
		r.fail()
		return nil
	}
	b := r.b[r.at : r.at+int(n) : r.at+int(n)]
	r.at += int(n)
	return b
}

func (r *reader) bytes() []byte { return r.next(r.long()) }

// items reads the number of items of the next part of an array or map; 0 after the last.
func (r *reader) items() int64 {
	n := r.long()
	if n < 0 {
		r.long() // the bytes of the part
		n = -n
	}
	if r.left -= n; n < 0 || n > maxRecords || r.left < 0 {
		r.fail()
		return 0
	}
	return n
}

// skip skips a value.
func (r *reader) skip(n *node, nesting int) {
	if nesting > 2*maxNesting {
		r.fail()
	}
	if r.short {
		return
	}
	switch n.kind {
	case "boolean":
		r.next(1)
	case "int", "long", "enum":
		r.long()
	case "float":
		r.next(4)
	case "double":
		r.next(8)
	case "bytes", "string":
		r.bytes()
	case "fixed":
		r.next(int64(n.size))
	case "record":
		if r.left--; r.left < 0 {
			r.fail()
		}
		for _, of := range n.of {
			r.skip(of, nesting+1)
		}
	case "union":
		if b := r.branch(n); b != nil {
			r.skip(b, nesting+1)
		}
	case "array", "map":
		r.skipItems(n, nesting)
	}
}

// skipItems skips an array or a map.
func (r *reader) skipItems(n *node, nesting int) {
	for !r.short {
		count := r.long()
		switch r.left -= max(count, 0); {
		case count == 0:
			return
		case count < 0:
			r.bytes()
			continue
		case count > maxRecords || r.left < 0:
			r.fail()
		}
		for ; count > 0 && !r.short; count-- {
			if n.kind == "map" {
				r.bytes()
			}
			r.skip(n.of[0], nesting+1)
		}
	}
}

// branch reads which type of a union follows; nil if there is none of this number.
func (r *reader) branch(n *node) *node {
	if i := r.long(); i >= 0 && i < int64(len(n.of)) {
		return n.of[i]
	}
	r.fail()
	return nil
}

// builder collects the values of a column in a block.
type builder struct {
	column  table.Column
	convert *table.Converter
	stored  table.Stored
	count   int // of values
	page    table.Page
}

func (c *builder) reset() {
	s := &c.stored
	*s = table.Stored{Bits: s.Bits[:0], Int32s: s.Int32s[:0], Int64s: s.Int64s[:0], Floats: s.Floats[:0], Doubles: s.Doubles[:0], Bytes: s.Bytes[:0], Offsets: append(s.Offsets[:0], 0)}
	c.count, c.page.Rows = 0, 0
	c.page.Levels, c.page.Repeats = c.page.Levels[:0], c.page.Repeats[:0]
	if c.page.Levels == nil {
		c.page.Levels = []byte{}
	}
}

// place adds a place: a value, a null, or a row without places.
func (c *builder) place(level, repeats byte) {
	c.page.Levels = append(c.page.Levels, level)
	if c.column.List {
		c.page.Repeats = append(c.page.Repeats, repeats)
	}
}

// read reads a value, which is not null.
func (c *builder) read(r *reader, n *node) error {
	s := &c.stored
	c.count++
	switch n.kind {
	case "boolean":
		b := r.next(1)
		if c.count > 8*len(s.Bits) {
			s.Bits = append(s.Bits, 0)
		}
		if len(b) > 0 && b[0] != 0 {
			s.Bits[(c.count-1)/8] |= 1 << ((c.count - 1) % 8)
		}
	case "int":
		x := r.long()
		if x != int64(int32(x)) {
			return fmt.Errorf("the int %d has more than 32 bits", x)
		}
		s.Int32s = append(s.Int32s, int32(x))
	case "long":
		s.Int64s = append(s.Int64s, r.long())
	case "float":
		if b := r.next(4); b != nil {
			s.Floats = append(s.Floats, math.Float32frombits(binary.LittleEndian.Uint32(b)))
		}
	case "double":
		if b := r.next(8); b != nil {
			s.Doubles = append(s.Doubles, math.Float64frombits(binary.LittleEndian.Uint64(b)))
		}
	case "fixed":
		s.Bytes = append(s.Bytes, r.next(int64(n.size))...)
	case "enum":
		i := r.long()
		if i < 0 || i >= int64(len(n.names)) {
			return fmt.Errorf("symbol %d of %d", i, len(n.names))
		}
		s.Bytes = append(s.Bytes, n.names[i]...)
		s.Offsets = append(s.Offsets, uint32(len(s.Bytes)))
	default:
		b := r.bytes()
		if len(b) == 0 && n.logical == "decimal" && !r.short {
			return errors.New("a decimal of no bytes")
		}
		s.Bytes = append(s.Bytes, b...)
		s.Offsets = append(s.Offsets, uint32(len(s.Bytes)))
	}
	if len(s.Bytes) > math.MaxInt32 {
		return errors.New("its strings have more than 2 GiB")
	}
	return nil
}

// plan says what to do with a type: read it into a column, go into its members or items, or skip it.
type plan struct {
	node    *node
	column  *builder // of plain values or lists of them
	members []*plan  // of a record
	items   *plan    // of an array of records, or of a map
	under   []*builder
}

// spot is where values are put: how a value and a null are marked, and whether an item before is in the
// same row.
type spot struct{ value, null, repeats byte }

// pages are the blocks of a group. It implements table.Pages.
type pages struct {
	*File
	at, hi int
	rows
}

// Open implements table.Form.
func (x *File) Open(g int, columns []int) (table.Pages, error) {
	if g < 0 || g >= len(x.groups) {
		return nil, fmt.Errorf("there is no group %d of %d", g, len(x.groups))
	}
	p := &pages{File: x, at: x.groups[g].lo, hi: x.groups[g].hi}
	if s := x.spare; s != nil && slices.Equal(s.of, columns) {
		p.rows, x.spare = *s, nil
		return p, nil
	}
	return p, p.open(&x.Schema, columns)
}

// rows are the values of some columns in some records.
type rows struct {
	of      []int // the columns, by their indexes in the schema
	plan    *plan
	columns []*builder
}

// open prepares p for columns of a schema.
func (p *rows) open(x *Schema, columns []int) error {
	wanted := map[string]*builder{}
	p.of = slices.Clone(columns)
	for _, i := range columns {
		c := &builder{column: x.all[i]}
		var err error
		if c.convert, err = table.NewConverter(c.column.Type); err != nil {
			return err
		}
		p.columns = append(p.columns, c)
		if wanted[c.column.Name] == nil {
			wanted[c.column.Name] = c
		}
	}
	p.plan = planOf(x.root, "", wanted, nil, false)
	for _, c := range p.columns {
		if wanted[c.column.Name] != nil {
			return fmt.Errorf("column %s: it is not in the schema", c.column.Name)
		}
	}
	return nil
}

// planOf returns the plan of a type. It takes the columns that it finds out of wanted. It goes only where
// Schema.columns goes; list says that the type is within the items of an array.
func planOf(n *node, name string, wanted map[string]*builder, within []*node, list bool) *plan {
	p := &plan{node: n}
	of := n.plain()
	if c := wanted[name]; c != nil && of != nil && of.kind != "record" {
		delete(wanted, name)
		p.column, p.under = c, []*builder{c}
		return p
	}
	if of == nil || len(within) > maxNesting {
		return p
	}
	if item := of.items(); item != nil {
		if list || of.kind == "map" && !item.of[1].isPlain() {
			return p
		}
		if p.items = planOf(item, name, wanted, within, true); len(p.items.under) == 0 {
			p.items = nil
			return p
		}
		p.under = p.items.under
		return p
	}
	if of.kind != "record" {
		return p
	}
	for _, around := range within {
		if around == of {
			return p
		}
	}
	for i, member := range of.of {
		full := of.names[i]
		if len(within) > 0 {
			full = name + "." + full
		}
		m := planOf(member, full, wanted, append(within[:len(within):len(within)], of), list)
		p.members, p.under = append(p.members, m), append(p.under, m.under...)
	}
	return p
}

// Next implements table.Pages.
func (p *pages) Next() error {
	if p.at == p.hi {
		return io.EOF
	}
	b := p.blocks[p.at]
	err := p.block(b)
	if err != nil {
		return fmt.Errorf("block %d at offset %d: %w", p.at, b.at, err)
	}
	p.at++
	return nil
}

// Close implements table.Pages.
func (p *pages) Close() { p.spare = &p.rows }

// block reads the records of a block.
func (p *pages) block(b block) error {
	p.stored = slices.Grow(p.stored[:0], int(b.bytes))[:b.bytes]
	if err := p.read(p.stored, b.at); err != nil {
		return err
	}
	plain, err := p.unpack.unpack(p.stored)
	if err != nil {
		return err
	}
	if most := int64(len(plain)) / p.least; int64(b.rows) > most {
		return fmt.Errorf("it claims %d records in %d bytes, which have at most %d", b.rows, len(plain), most)
	}
	return p.decode(plain, b.rows)
}

// decode reads n records.
func (p *rows) decode(b []byte, n int32) error {
	for _, c := range p.columns {
		c.reset()
	}
	r := &reader{b: b, left: int64(len(b)) + maxEmpty*int64(n)}
	for i := range n {
		if err := p.plan.read(r, spot{value: 1}); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		if r.short {
			return fmt.Errorf("record %d: %w", i, errShort)
		}
	}
	if rest := len(r.rest()); rest > 0 {
		return fmt.Errorf("%d bytes follow its %d records", rest, n)
	}
	for _, c := range p.columns {
		if c.page.Rows = int(n); c.column.Type.Width > 0 {
			c.stored.Offsets = nil
		}
		if err := c.convert.Convert(&c.page.Values, &c.stored, c.count); err != nil {
			return fmt.Errorf("column %s: %w", c.column.Name, err)
		}
	}
	return nil
}

// Page implements table.Pages.
func (p *rows) Page(i int) *table.Page { return &p.columns[i].page }

// read reads a value of the type of the plan.
func (p *plan) read(r *reader, at spot) error {
	if len(p.under) == 0 {
		r.skip(p.node, 0)
		return nil
	}
	n := p.node
	if n.kind == "union" {
		if n = r.branch(n); n == nil {
			return nil
		}
	}
	switch {
	case n.kind == "null":
		p.missing(at)
		return nil
	case p.items != nil:
		return p.list(r)
	case p.column == nil:
		for _, m := range p.members {
			if err := m.read(r, at); err != nil {
				return err
			}
		}
		return nil
	case n.kind == "array":
		return p.column.list(r, n.of[0])
	}
	p.column.place(at.value, at.repeats)
	if err := p.column.read(r, n); err != nil {
		return fmt.Errorf("column %s: %w", p.column.column.Name, err)
	}
	return nil
}

// missing adds a null to the columns of the plan.
func (p *plan) missing(at spot) {
	for _, c := range p.under {
		c.place(at.null, at.repeats)
	}
}

// list reads an array of records, or a map.
func (p *plan) list(r *reader) error {
	at := spot{value: 2, null: 1}
	for n := r.items(); n > 0; n = r.items() {
		if len(p.under[0].page.Levels)+int(n) > maxRecords {
			return fmt.Errorf("column %s: its lists have more than %d values in a block", p.under[0].column.Name, maxRecords)
		}
		for ; n > 0 && !r.short; n-- {
			if err := p.items.read(r, at); err != nil {
				return err
			}
			at.repeats = 1
		}
	}
	if at.repeats == 0 {
		p.missing(spot{})
	}
	return nil
}

// list reads an array.
func (c *builder) list(r *reader, of *node) error {
	repeats := byte(0)
	for n := r.items(); n > 0; n = r.items() {
		if len(c.page.Levels)+int(n) > maxRecords {
			return fmt.Errorf("column %s: its lists have more than %d values in a block", c.column.Name, maxRecords)
		}
		for ; n > 0 && !r.short; n-- {
			item := of
			if of.kind == "union" {
				if item = r.branch(of); item == nil {
					return nil
				}
			}
			if item.kind == "null" {
				c.place(1, repeats)
			} else {
				c.place(2, repeats)
				if err := c.read(r, item); err != nil {
					return fmt.Errorf("column %s: %w", c.column.Name, err)
				}
			}
			repeats = 1
		}
	}
	if repeats == 0 {
		c.place(0, 0)
	}
	return nil
}

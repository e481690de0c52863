package arrow

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/data/table"
)

// dictionary is the dictionary of a column, as of some batch.
type dictionary struct {
	first, last int // its messages are among these; 0, 0: none was read
	number      int
	values      table.Values
	at          []int32 // by index: that in values, −1 for a null
}

// dictionaryOf returns the dictionary of a column for batch number.
func (b *batch) dictionaryOf(c *column, number int) (*dictionary, error) {
	first, last := -1, -1
	for i := range b.dicts {
		d := &b.dicts[i]
		if d.id != c.leaf.dict || d.before > number {
			continue
		}
		if !d.delta || first < 0 {
			first = i
		}
		last = i
	}
	if first < 0 {
		return nil, fmt.Errorf("there is no dictionary %d", c.leaf.dict)
	}
	d := &c.dictionary
	if d.number > 0 && d.first == first && d.last == last {
		return d, nil
	}
	*d = dictionary{}
	value := *c.leaf
	value.indexed = false
	var all table.Stored
	for i := first; i <= last; i++ {
		if p := &b.dicts[i]; p.id == c.leaf.dict && p.before <= number {
			if err := d.read(b.File, &value, p, &all); err != nil {
				return nil, fmt.Errorf("dictionary %d: %w", p.id, err)
			}
		}
	}
	n := 0
	for i, there := range d.at {
		if d.at[i] = -1; there != 0 {
			d.at[i] = int32(n)
			n++
		}
	}
	b.number++
	d.first, d.last, d.number = first, last, b.number
	return d, c.convert.Convert(&d.values, &all, n)
}

// read adds the values of a message. In d.at, it writes whether each is not null.
func (d *dictionary) read(x *File, f *field, p *dictPart, all *table.Stored) error {
	b, err := x.open(p.part, []*field{f}, true)
	if err != nil {
		return err
	}
	n, _, err := b.node(f)
	if err != nil {
		return err
	}
	bits, err := b.validity(f, n)
	if err != nil {
		return err
	}
	if len(d.at)+n > maxBatch {
		return fmt.Errorf("it has more than %d values", maxBatch)
	}
	var take []int32
	for i := range n {
		there := int32(1)
		if bits != nil {
			there = int32(bit(bits, i))
		}
		if d.at = append(d.at, there); there != 0 {
			take = append(take, int32(i))
		}
	}
	if take == nil {
		take = []int32{}
	}
	var more table.Stored
	if err := b.gather(f, taken{n, take}, &more); err != nil {
		return err
	}
	return join(all, &more, len(d.at)-n)
}

// join appends values to all, which has no bits beyond whole ones only if it has no booleans: those
// are rare in dictionaries, and only the first message may have them.
func join(all, more *table.Stored, before int) error {
	if len(more.Bits) > 0 && before > 0 {
		return fmt.Errorf("a dictionary of booleans grows; write them without dictionary")
	}
	all.Bits = append(all.Bits, more.Bits...)
	all.Int32s = append(all.Int32s, more.Int32s...)
	all.Int64s = append(all.Int64s, more.Int64s...)
	all.Floats = append(all.Floats, more.Floats...)
	all.Doubles = append(all.Doubles, more.Doubles...)
	if len(more.Offsets) == 0 {
		all.Bytes = append(all.Bytes, more.Bytes...)
		return nil
	}
	if len(all.Offsets) == 0 {
		all.Offsets = append(all.Offsets, 0)
	}
	base := len(all.Bytes)
	if base+len(more.Bytes) > maxBuffer {
		return fmt.Errorf("a dictionary of more than %d bytes", maxBuffer)
	}
	all.Bytes = append(all.Bytes, more.Bytes...)
	for _, o := range more.Offsets[1:] {
		all.Offsets = append(all.Offsets, uint32(base)+o)
	}
	return nil
}

package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strconv"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// column reads the values of one column of a row group.
type column struct {
	name string
	composed
	pages   pages
	leaf    leaf
	codec   format.CompressionCodec
	unpack  *unpacker
	most    byte // definition level of a value that is not null
	list    bool
	convert conversion // nil: values are used as stored
	check   *checker   // nil: statistics are not checked

	levels, repeats []byte // of the page; nil: no nulls, one value per row
	level           int    // of the next value
	at              int    // of the next non-null value
	count           int    // number of values or levels of the page
	buffers         [2][]byte

	index   []int32 // of a page with a dictionary
	indexed []int32 // memory of index
	dict    int     // 1 if the page has a dictionary, otherwise 0

	values     *Values // of the page, or of its dictionary
	plain      decoded
	dictionary decoded

	row   []byte  // values of the row so far
	nulls []int32 // places of nulls in the row

	origin
}

// composed is a vector, which has no pages of its own.
type composed struct {
	parts   []column // nil: no vector
	members []value.List
}

// origin is where the values of a column are, if it has no pages of Parquet.
type origin struct {
	fixed bool    // all rows have the same value
	form  *shared // pages of another format
	of    int     // the column in form
	turn  int     // number of pages taken from form
}

// decoded are values, as stored and converted. They share memory if nothing is converted.
type decoded struct {
	present bool // of a dictionary: it was read
	stored  typed
	values  Values
}

// load reads the next page; io.EOF after the last.
func (c *column) load() error {
	if c.fixed {
		c.level, c.at = 0, 0
		return nil
	}
	if c.form != nil {
		return c.form.next(c)
	}
	for {
		h, body, err := c.pages.next()
		if err != nil {
			return err
		}
		switch h.Type {
		case format.DataPage:
			return c.page(&h.V1.V, h.Plain, body)
		case format.DataPageV2:
			return c.pageV2(&h.V2.V, h.Plain, body)
		case format.DictionaryPage:
			if err := c.entries(&h.Dictionary.V, h.Plain, body); err != nil {
				return fmt.Errorf("its dictionary: %w", err)
			}
		}
	}
}

// entries reads a dictionary.
func (c *column) entries(h *dictionaryPage, size int32, body []byte) error {
	if c.dictionary.present {
		return errors.New("there are two")
	}
	if h.Encoding != format.Plain && h.Encoding != format.PlainDictionary {
		return fmt.Errorf("it is encoded as %v, which the format does not define", h.Encoding)
	}
	body, err := c.unpack.unpack(c.codec, body, int(size))
	if err != nil {
		return err
	}
	c.dictionary.present = true
	return c.decode(&c.dictionary, format.Plain, body, int(h.Values))
}

// page reads a page whose levels are compressed with its values.
func (c *column) page(h *dataPage, size int32, body []byte) error {
	body, err := c.unpack.unpack(c.codec, body, int(size))
	if err != nil {
		return err
	}
	n := int(h.Values)
	c.levels, c.repeats = nil, nil
	if c.list {
		if c.buffers[1], body, err = appendLevels(c.buffers[1], h.Repeats, c.leaf.repeats, n, body); err != nil {
			return err
		}
		c.repeats = c.buffers[1]
	}
	if c.most > 0 {
		if c.buffers[0], body, err = appendLevels(c.buffers[0], h.Levels, c.most, n, body); err != nil {
			return err
		}
		c.levels = c.buffers[0]
	}
	return c.readPage(n, h.Encoding, body, &h.Statistics)
}

// pageV2 reads a page whose levels are not compressed.
func (c *column) pageV2(h *dataPageV2, size int32, body []byte) (err error) {
	n := int(h.Values)
	repeats, levels := body[:h.RepeatBytes], body[h.RepeatBytes:h.RepeatBytes+h.LevelBytes]
	body = body[h.RepeatBytes+h.LevelBytes:]
	c.levels, c.repeats = nil, nil
	if c.list {
		if c.buffers[1], err = runLevels(c.buffers[1], bits.Len8(c.leaf.repeats), n, repeats); err != nil {
			return err
		}
		c.repeats = c.buffers[1]
	}
	if c.most > 0 {
		if c.buffers[0], err = runLevels(c.buffers[0], bits.Len8(c.most), n, levels); err != nil {
			return err
		}
		c.levels = c.buffers[0]
	}
	if !h.IsCompressed.Valid || h.IsCompressed.V {
		if body, err = c.unpack.unpack(c.codec, body, int(size-h.RepeatBytes-h.LevelBytes)); err != nil {
			return err
		}
	}
	if nulls := n - c.there(n); !c.list && nulls != int(h.Nulls) {
		return fmt.Errorf("a page has %d nulls, its header states %d", nulls, h.Nulls)
	}
	return c.readPage(n, h.Encoding, body, &h.Statistics)
}

// there returns the number of values of a page of n levels that are not null.
func (c *column) there(n int) int {
	if c.levels == nil {
		return n
	}
	return bytes.Count(c.levels, []byte{c.most})
}

// readPage reads the values of a page of n levels.
func (c *column) readPage(n int, kind format.Encoding, body []byte, s *thrift.Null[statistics]) error {
	c.level, c.at, c.count, c.index, c.dict = 0, 0, 0, nil, 0
	there := c.there(n)
	indexed := kind == format.PlainDictionary || kind == format.RLEDictionary
	if indexed && !c.dictionary.present && there > 0 {
		return errors.New("a page refers to a dictionary, and there is none")
	}
	if indexed && c.dictionary.present {
		var err error
		if c.indexed, err = indexes(c.indexed, body, there); err != nil {
			return err
		}
		c.index, c.dict, c.values = c.indexed, 1, &c.dictionary.values
	} else {
		if err := c.decode(&c.plain, kind, body, there); err != nil {
			return err
		}
		c.values = &c.plain.values
	}
	c.count = n
	if c.check == nil {
		return nil
	}
	return c.check.page(c, there, s)
}

// decode decodes n values and converts them.
func (c *column) decode(d *decoded, kind format.Encoding, body []byte, n int) error {
	d.stored.prepare(c.leaf.element)
	if n == 0 {
		kind, body = format.Plain, nil // writers differ in what they write for no values
	}
	if err := d.stored.decode(c.leaf.element, kind, body, n); err != nil {
		return err
	}
	if c.convert == nil {
		d.values.typed = d.stored
		return nil
	}
	return c.convert(&d.values.typed, &d.stored)
}

// append appends the values of the next row.
func (c *column) append(dst []byte) ([]byte, error) {
	if c.parts != nil {
		return c.appendVector(dst)
	}
	for c.level == c.count {
		if err := c.load(); err != nil {
			return dst, short(err)
		}
	}
	if !c.list {
		there := c.most == 0 || c.levels[c.level] == c.most
		if c.level++; !there {
			return append(dst, byte(value.None)), nil
		}
		return c.value(append(dst, byte(c.values.kind), 1))
	}
	if c.repeats[c.level] != 0 {
		return dst, errors.New("a page begins within a row")
	}
	n, kind := 0, c.values.kind
	c.row, c.nulls = c.row[:0], c.nulls[:0]
	for first := true; first || c.repeats[c.level] != 0; first = false {
		if c.levels[c.level] == c.most {
			begin := len(c.row)
			var err error
			if c.row, err = c.value(c.row); err != nil {
				return dst, err
			}
			if n++; kind != c.values.kind {
				c.row = asTexts(c.row, begin)
			}
		} else if c.levels[c.level] >= c.leaf.place {
			c.nulls = append(c.nulls, int32(n+len(c.nulls)))
		}
		if c.level++; c.level < c.count {
			continue
		}
		if c.form != nil {
			break
		}
		// A row may continue in the next page.
		if err := c.loadValues(); err == io.EOF {
			break
		} else if err != nil {
			return dst, err
		}
		if c.repeats[0] != 0 && kind != c.values.kind && kind == value.Int {
			c.row, kind = asTexts(c.row, 0), value.Text
		}
	}
	return c.listed(dst, kind, n), nil
}

// loadValues reads the next page that is not empty; io.EOF after the last.
func (c *column) loadValues() error {
	for {
		if err := c.load(); err != nil {
			c.count, c.level = 0, 0
			return err
		} else if c.count > 0 {
			return nil
		}
	}
}

// asTexts makes strings of the integers of a row from begin. A page of unsigned integers
// holds strings if one of them does not fit int64.
func asTexts(row []byte, begin int) []byte {
	ints := bytes.Clone(row[begin:])
	row = row[:begin]
	for ; len(ints) >= 8; ints = ints[8:] {
		text := strconv.FormatUint(binary.LittleEndian.Uint64(ints), 10)
		row = append(binary.AppendUvarint(row, uint64(len(text))), text...)
	}
	return row
}

// listed appends a list of n values, which are in c.row, and the nulls in c.nulls.
func (c *column) listed(dst []byte, kind value.Kind, n int) []byte {
	if n == 0 {
		kind = value.None
	}
	if len(c.nulls) > 0 {
		dst = binary.AppendUvarint(append(dst, byte(kind)|hasNulls), uint64(len(c.nulls)))
		for _, place := range c.nulls {
			dst = binary.AppendUvarint(dst, uint64(place))
		}
	} else {
		dst = append(dst, byte(kind))
	}
	if n == 0 {
		return dst
	}
	return append(binary.AppendUvarint(dst, uint64(n)), c.row...)
}

func short(err error) error {
	if err == io.EOF {
		return errShort
	}
	return err
}

// value appends the next non-null value.
func (c *column) value(dst []byte) ([]byte, error) {
	i := c.at
	c.at++
	t := c.values
	if c.index != nil {
		if i >= len(c.index) {
			return dst, errShort
		}
		if i = int(c.index[i]); i < 0 || i >= t.len() {
			return dst, fmt.Errorf("a page names entry %d of a dictionary of %d entries", i, t.len())
		}
	}
	if i < 0 || i >= t.len() {
		return dst, errShort
	}
	switch t.kind {
	case value.Text:
		b := t.text(i)
		return append(binary.AppendUvarint(dst, uint64(len(b))), b...), nil
	case value.Int:
		return binary.LittleEndian.AppendUint64(dst, uint64(t.integer(i))), nil
	}
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(t.doubles[i])), nil
}

package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// column reads the values of one column of a row group.
type column struct {
	name     string
	pages    parquet.Pages
	page     parquet.Page
	most     byte // definition level of a value that is not null
	list     bool
	nullable bool       // a list may contain nulls; their definition level is most − 1
	convert  conversion // nil: values are used as stored
	unsigned bool       // 32-bit integers are unsigned

	levels, repeats []byte // of the page; nil: no nulls, one value per row
	level           int    // of the next value
	at              int    // of the next non-null value
	count           int    // number of values or levels of the page

	index  []int32 // of a page with a dictionary
	dict   int     // number of the dictionary; 0: the page has none
	dicts  int     // dictionaries so far
	last   parquet.Dictionary
	values Values // of the page, or of its dictionary
	stored typed  // before conversion

	row   []byte  // values of the row so far
	nulls []int32 // places of nulls in the row
}

// typed are the values of a page in one of these forms.
type typed struct {
	kind    value.Kind
	bits    []byte
	int32s  []int32
	int64s  []int64
	int96s  []deprecated.Int96
	floats  []float32
	doubles []float64
	bytes   []byte // with the offset or the length of each string
	offsets []uint32
	width   int
}

var errShort = errors.New("a page has fewer values than its header states")

func (c *column) close() {
	if c.page != nil {
		parquet.Release(c.page)
		c.page = nil
	}
	if c.pages != nil {
		c.pages.Close()
		c.pages = nil
	}
}

// load reads the next page; io.EOF after the last.
func (c *column) load() error {
	if c.page != nil {
		parquet.Release(c.page)
		c.page = nil
	}
	page, err := c.pages.ReadPage()
	if err != nil {
		return err
	}
	c.page, c.level, c.at, c.index = page, 0, 0, nil
	c.levels, c.repeats, c.count = page.DefinitionLevels(), page.RepetitionLevels(), int(page.NumValues())
	if c.most > 0 && len(c.levels) != c.count || c.list && len(c.repeats) != c.count {
		return errShort
	}
	data := page.Data()
	c.dict = 0
	if d := page.Dictionary(); d != nil {
		c.index = data.Int32()
		data = d.Page().Data()
		c.dict = c.dicts
		if d == c.last {
			return nil // its entries are loaded
		}
		c.last, c.dicts, c.dict = d, c.dicts+1, c.dicts+1
	} else {
		c.last = nil
	}
	if c.convert == nil {
		return c.values.take(data, c.unsigned)
	}
	if err := c.stored.take(data, c.unsigned); err != nil {
		return err
	}
	return c.convert(&c.values.typed, &c.stored)
}

func (t *typed) take(v encoding.Values, unsigned bool) error {
	*t = typed{kind: value.Int}
	switch v.Kind() {
	case encoding.Boolean:
		t.bits = v.Boolean()
	case encoding.Int32:
		if t.int32s = v.Int32(); unsigned {
			t.width = 4
		}
	case encoding.Int64:
		t.int64s = v.Int64()
	case encoding.Int96:
		t.int96s = v.Int96()
	case encoding.Float:
		t.kind, t.floats = value.Float64, v.Float()
	case encoding.Double:
		t.kind, t.doubles = value.Float64, v.Double()
	case encoding.ByteArray:
		t.kind = value.Text
		t.bytes, t.offsets = v.ByteArray()
	case encoding.FixedLenByteArray:
		t.kind = value.Text
		t.bytes, t.width = v.FixedLenByteArray()
	default:
		if v.Size() > 0 {
			return fmt.Errorf("its type %v cannot be read", v.Kind())
		}
	}
	return nil
}

// append appends the values of the next row.
func (c *column) append(dst []byte) ([]byte, error) {
	for c.page == nil || c.level == c.count {
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
	n := 0
	c.row, c.nulls = c.row[:0], c.nulls[:0]
	for first := true; first || c.repeats[c.level] != 0; first = false {
		if c.levels[c.level] == c.most {
			var err error
			if c.row, err = c.value(c.row); err != nil {
				return dst, err
			}
			n++
		} else if c.nullable && c.levels[c.level] == c.most-1 {
			c.nulls = append(c.nulls, int32(n+len(c.nulls)))
		}
		if c.level++; c.level < c.count {
			continue
		}
		// A row may continue in the next page.
		kind := c.values.kind
		if err := c.load(); err == io.EOF {
			c.page, c.count, c.level = nil, 0, 0
			return c.listed(dst, kind, n), nil
		} else if err != nil {
			return dst, err
		}
		if c.count == 0 {
			return dst, errShort
		}
	}
	return c.listed(dst, c.values.kind, n), nil
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
	if c.index != nil {
		if i >= len(c.index) {
			return dst, errShort
		}
		i = int(c.index[i])
	}
	t := &c.values
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

func (t *typed) len() int {
	switch {
	case t.kind == value.Text && t.width > 0:
		return len(t.bytes) / t.width
	case t.kind == value.Text:
		return len(t.offsets) - 1
	}
	return max(8*len(t.bits), len(t.int32s), len(t.int64s), len(t.int96s), len(t.floats), len(t.doubles))
}

func (t *typed) text(i int) []byte {
	if t.width > 0 {
		return t.bytes[i*t.width : (i+1)*t.width]
	}
	return t.bytes[t.offsets[i]:t.offsets[i+1]]
}

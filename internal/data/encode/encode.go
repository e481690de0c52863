package encode

import (
	"encoding/binary"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// RowCoder checks records and encodes them as rows. It belongs to one goroutine.
type RowCoder struct {
	parser *parser
	coder  *coder
	direct direct // nil: parser and coder encode every record
	labels []float32
}

// direct encodes simple records of one format in one pass. For every record that it
// accepts, its result equals the result of parser and coder, which are the specification.
type direct interface {
	// encode encodes a record as single keys and numbers, and reports whether its label is
	// 1. If ok is false, parser and coder must encode or reject the record, and the contents
	// of to are undefined.
	encode(to places, record []byte) (one, ok bool)
}

// places are the destination of an encoded record.
type places struct {
	numbers []float32
	keys    []uint64 // key i is stored at index i·step
	step    int
}

// placesIn returns the places in a row.
func (s *shape) placesIn(row []uint64) places {
	first := s.firstKey()
	words := row[1:first]
	if len(words) > 0 {
		words[len(words)-1] = 0 // its upper half may be unused
	}
	return places{raw.Of[float32](raw.Bytes(words))[:s.dense], row[first:], 1}
}

// usual encodes a record as a row. It returns false if direct does not accept it.
func (r *RowCoder) usual(row []uint64, record []byte) bool {
	if r.direct == nil {
		return false
	}
	one, ok := r.direct.encode(r.coder.shape.placesIn(row), record)
	if row[0] = 0; one {
		row[0] = headLabel
	}
	return ok
}

// NewChecker returns a RowCoder that checks records with these fields by a valid, filled
// schema. It cannot encode.
func NewChecker(src schema.Source, fields []string, s schema.Schema) (*RowCoder, error) {
	return newRowCoder(src, fields, s, nil)
}

// Coder returns a RowCoder of records with these fields.
func (e *Encoder) Coder(src schema.Source, fields []string) (*RowCoder, error) {
	r, err := newRowCoder(src, fields, e.schema, e.stats)
	if err == nil {
		r.coder.shape.outOfFold, r.coder.shape.keepRated = e.outOfFold, e.keepRated
	}
	return r, err
}

func newRowCoder(src schema.Source, fields []string, s schema.Schema, stats []statistics) (*RowCoder, error) {
	p, err := newParser(src, fields, s)
	if err != nil {
		return nil, err
	}
	c := newCoder(s, stats, p)
	return &RowCoder{parser: p, coder: c, direct: newDirect(c)}, nil
}

// Readable returns the parts of a valid, filled schema that records with these fields
// cannot provide; nil if there are none.
func Readable(src schema.Source, fields []string, s schema.Schema) error {
	_, err := newParser(src, fields, s)
	return err
}

// FieldsRead returns the fields read from a record.
func (r *RowCoder) FieldsRead() []string { return r.parser.reads }

// Columns returns the number of columns of the schema, including the label.
func (r *RowCoder) Columns() int { return len(r.parser.columns) }

// Positive reports whether the label of the record checked last is 1.
func (r *RowCoder) Positive() bool { return r.parser.one }

// Labels returns the numeric labels of the record checked last, in the order of
// schema.Targets. The slice is valid until the next call.
func (r *RowCoder) Labels() []float32 {
	r.labels = r.labels[:0]
	for i := range r.parser.targets {
		if r.parser.targets[i].Label != nil {
			r.labels = append(r.labels, r.parser.target(i))
		}
	}
	return r.labels
}

// newDirect returns nil if there is no direct coder for these records.
func newDirect(c *coder) direct {
	if x := newPlain(c); x != nil {
		return x
	}
	if x := newSingles(c); x != nil {
		return x
	}
	return nil
}

// Check checks a record, and leaves its values in the parser.
func (r *RowCoder) Check(record []byte) *record.Flaw {
	if fl := r.parser.parse(record); fl != nil {
		return fl
	}
	return r.coder.check()
}

// encode appends a record to dst as a row.
func (r *RowCoder) encode(dst []uint64, record []byte) ([]uint64, *record.Flaw) {
	c := r.coder
	at := len(dst)
	dst = extend(dst, c.shape.plainWords())
	if r.usual(dst[at:], record) {
		return dst, nil
	}
	if fl := r.parser.parse(record); fl != nil {
		return dst[:at], fl
	}
	if c.single(dst[at:]) {
		if fl := r.parser.takeNotDate(); fl != nil {
			return dst[:at], fl
		}
		return dst, nil
	}
	c.one.reset(1, c.shape.dense, c.shape.sparse)
	if fl := c.row(&c.one); fl != nil {
		return dst[:at], fl
	}
	return c.shape.appendLists(dst[:at], &c.one), nil
}

// single encodes the parsed record, with the result of row, if every feature has one key
// and no weight. This is the common case.
func (c *coder) single(row []uint64) bool {
	p := c.parser
	keys := row[c.shape.firstKey():]
	for i := range c.sparse {
		f := &c.sparse[i]
		l := &p.lists[f.column]
		switch {
		case f.isWeighted(), f.Padding != "":
			return false
		case p.absent[f.column]:
			keys[i] = KeyMissing
		case f.encoding.Number():
			keys[i] = uint64(interval(f.limits, p.numbers[f.column]))
		case f.Separator != "" || l.Len() != 1:
			return false
		case l.Kind == value.Int && f.encoding == schema.ID:
			keys[i] = uint64(l.Ints[0])
		default:
			k, ok := f.key(p.textOf(l, 0))
			if !ok || k == KeyMissing && p.undated != nil && f.encoding.Date() { // row counts it
				return false
			}
			keys[i] = k
		}
	}
	c.putCrosses(places{keys: keys, step: 1})
	for i := range c.dense {
		putFloat(row[1:], i, c.dense[i].number(p))
	}
	for i := range p.targets {
		putFloat(row[1:], len(c.dense)+i, p.target(i))
	}
	row[0] = 0
	if p.one {
		row[0] = headLabel
	}
	return true
}

// putCrosses writes the keys of crosses, after the keys of features with one key each.
func (c *coder) putCrosses(to places) {
	for i := range c.crosses {
		to.keys[(len(c.sparse)+i)*to.step] = c.cross(&c.crosses[i], to)
	}
}

// cross returns the key of a cross of features with one key each.
func (c *coder) cross(x *crossCode, in places) uint64 {
	buf := c.buf[:8*len(x.of)]
	for d, f := range x.of {
		binary.LittleEndian.PutUint64(buf[8*d:], plainKey(in.keys[f*in.step]))
	}
	key := keyOf(buf)
	if x.buckets > 0 {
		key %= x.buckets
	}
	return key
}

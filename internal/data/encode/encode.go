package encode

import (
	"encoding/binary"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/raw"
)

// RowCoder checks records and encodes them as rows. It belongs to one goroutine.
type RowCoder struct {
	parser *parser
	coder  *coder
	direct direct // nil: parser and coder do it
	labels []float32
}

// direct encodes usual records of one format in one pass. It agrees with parser
// and coder, the specification, in all it takes.
type direct interface {
	// encode makes a record single keys and numbers, and reports whether its label is 1.
	// It is not ok if it is to be done, or rejected, by parser and coder; what it has
	// written then means nothing.
	encode(to places, record []byte) (one, ok bool)
}

// places is where what a record becomes is written.
type places struct {
	numbers []float32
	keys    []uint64 // key i goes to place i·step
	step    int
}

// placesIn are those in a row.
func (s *shape) placesIn(row []uint64) places {
	first := s.firstKey()
	words := row[1:first]
	if len(words) > 0 {
		words[len(words)-1] = 0 // whose upper half may be no number
	}
	return places{raw.Of[float32](raw.Bytes(words))[:s.dense], row[first:], 1}
}

// usual makes a record a row, if it is one of those that are encoded directly.
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

// NewChecker checks records with these fields by a schema that is valid and filled. It
// encodes nothing.
func NewChecker(src schema.Source, fields []string, s schema.Schema) (*RowCoder, error) {
	return newRowCoder(src, fields, s, nil)
}

// Coder encodes records with these fields.
func (e *Encoder) Coder(src schema.Source, fields []string) (*RowCoder, error) {
	return newRowCoder(src, fields, e.schema, e.stats)
}

func newRowCoder(src schema.Source, fields []string, s schema.Schema, stats []statistics) (*RowCoder, error) {
	p, err := newParser(src, fields, s)
	if err != nil {
		return nil, err
	}
	c := newCoder(s, stats, p)
	return &RowCoder{parser: p, coder: c, direct: newDirect(c)}, nil
}

// Readable tells what of a filled schema records with these fields cannot have; nil for
// nothing. Validate has found nothing.
func Readable(src schema.Source, fields []string, s schema.Schema) error {
	_, err := newParser(src, fields, s)
	return err
}

// FieldsRead names what is read of a record.
func (r *RowCoder) FieldsRead() []string { return r.parser.reads }

// Columns is how many columns the schema needs of a record, the label among them.
func (r *RowCoder) Columns() int { return len(r.parser.columns) }

// Positive reports whether the label of the record that was checked last is 1.
func (r *RowCoder) Positive() bool { return r.parser.one }

// Labels returns the labels of the record that was checked last that are numbers of it,
// in the order of schema.Targets. The slice is valid until the next call.
func (r *RowCoder) Labels() []float32 {
	r.labels = r.labels[:0]
	for i := range r.parser.targets {
		if r.parser.targets[i].Label != nil {
			r.labels = append(r.labels, r.parser.target(i))
		}
	}
	return r.labels
}

// newDirect is nil if nothing encodes the records of this coder directly.
func newDirect(c *coder) direct {
	if x := newPlain(c); x != nil {
		return x
	}
	if x := newSingles(c); x != nil {
		return x
	}
	return nil
}

// Check finds what is wrong with a record, and leaves its values in the parser.
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
		return dst, nil
	}
	c.one.reset(1, c.shape.dense, c.shape.sparse)
	if fl := c.row(&c.one); fl != nil {
		return dst[:at], fl
	}
	return c.shape.appendLists(dst[:at], &c.one), nil
}

// single encodes the parsed record if every feature has one key and no weight;
// then it is what row would have made. The usual case.
func (c *coder) single(row []uint64) bool {
	p := c.parser
	keys := row[c.shape.firstKey():]
	for i := range c.sparse {
		f := &c.sparse[i]
		l := &p.lists[f.column]
		switch {
		case f.weights != 0:
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
			if !ok {
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

// putCrosses writes the keys of crosses next to those of features that have one key
// each.
func (c *coder) putCrosses(to places) {
	for i := range c.crosses {
		to.keys[(len(c.sparse)+i)*to.step] = c.cross(&c.crosses[i], to)
	}
}

// cross is the key of a cross of features that have one key each.
func (c *coder) cross(x *crossCode, in places) uint64 {
	buf := c.buf[:8*len(x.of)]
	for d, f := range x.of {
		binary.LittleEndian.PutUint64(buf[8*d:], in.keys[f*in.step])
	}
	key := keyOf(buf)
	if x.buckets > 0 {
		key %= x.buckets
	}
	return key
}

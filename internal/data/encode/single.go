package encode

import (
	"strconv"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// singles encodes simple tf.Examples in one pass over their bytes: with at most one value
// per feature, and no strings that mean missing. It leaves all others to parser and coder.
type singles struct {
	decoder *tfrecord.Decoder
	coder   *coder
	values  []tfrecord.Value // by column of the parser
	counts  []*countTable
	digits  []byte
}

// newSingles returns nil if the schema has features that singles cannot encode, or the
// format is another.
func newSingles(c *coder) *singles {
	d, ok := record.ExampleDecoder(c.parser.decoder)
	if !ok || hasLists(c) || len(c.parser.missing) > 0 {
		return nil
	}
	x := &singles{decoder: d, coder: c, values: make([]tfrecord.Value, len(c.parser.columns))}
	tables := countTables{}
	for i := range c.dense {
		x.counts = append(x.counts, tables.of(&c.dense[i]))
	}
	return x
}

func (x *singles) encode(to places, record []byte) (one, ok bool) {
	if !x.decoder.Single(record, x.values) {
		return false, false
	}
	if one, ok = x.label(record); !ok {
		return false, false
	}
	for i := range x.coder.sparse {
		f := &x.coder.sparse[i]
		if to.keys[i*to.step], ok = x.key(f, &x.values[f.column], record); !ok {
			return false, false
		}
	}
	for i := range x.coder.dense {
		f := &x.coder.dense[i]
		if f.encoding == schema.Rate {
			continue
		}
		v, y := &x.values[f.column], float32(0)
		if f.encoding.Date() {
			text, ok := x.text(v, record)
			if !ok {
				return false, false
			}
			y = f.age(text)
		} else if v.Kind == value.Int && uint64(v.Int) < smallCounts {
			y = x.counts[i][v.Int]
		} else if z, there, ok := x.number(v, record); !ok {
			return false, false
		} else if there {
			y = f.scaled(z)
		}
		to.numbers[i] = y
	}
	for i := range x.coder.parser.targets {
		t := &x.coder.parser.targets[i]
		z, there, ok := x.number(&x.values[t.column], record)
		if !there || !ok {
			return false, false
		}
		y, why := t.value(z)
		if why != "" {
			return false, false
		}
		to.numbers[len(x.coder.dense)+i] = y
	}
	x.coder.putCrosses(to)
	return one, true
}

// key returns the key of a sparse feature.
func (x *singles) key(f *featureCode, v *tfrecord.Value, record []byte) (key uint64, ok bool) {
	switch {
	case v.Kind == value.None || v.Kind == value.Text && v.Lo == v.Hi:
		return KeyMissing, true
	case f.encoding.Number():
		z, _, ok := x.number(v, record)
		return uint64(interval(f.limits, z)), ok
	case v.Kind == value.Int && f.encoding == schema.ID:
		return uint64(v.Int), true
	}
	text, ok := x.text(v, record)
	if !ok {
		return 0, false
	}
	return f.key(text)
}

// number returns a value as a number. there is false if it is missing.
func (x *singles) number(v *tfrecord.Value, record []byte) (y float64, there, ok bool) {
	switch v.Kind {
	case value.None:
		return 0, false, true
	case value.Int:
		return float64(v.Int), true, true
	case value.Text:
		if v.Lo == v.Hi {
			return 0, false, true
		}
		y, ok = value.SmallNumber(record[v.Lo:v.Hi])
		return y, true, ok
	}
	y, why := value.CheckNumber(v.Real)
	return y, true, why == ""
}

// text returns a value as text. ok is false for a number with a fraction.
func (x *singles) text(v *tfrecord.Value, record []byte) (text []byte, ok bool) {
	switch v.Kind {
	case value.None:
		return nil, true
	case value.Text:
		return record[v.Lo:v.Hi], true
	case value.Int:
		x.digits = strconv.AppendInt(x.digits[:0], v.Int, 10)
		return x.digits, true
	}
	return nil, false
}

// label maps the label to 0 or 1. ok is false if the record has no value that means
// either.
func (x *singles) label(record []byte) (one, ok bool) {
	v, rule := &x.values[0], &x.coder.parser.label
	if rule.IsNone() {
		return false, true
	}
	if rule.IsNumber() {
		return false, v.Kind != value.None
	}
	if t := rule.Threshold; t != nil {
		y, there, ok := x.number(v, record)
		return y >= *t, there && ok
	}
	if text, is := x.text(v, record); is && len(text) > 0 {
		return rule.of(text)
	}
	return false, false
}

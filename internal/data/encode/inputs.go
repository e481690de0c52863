package encode

import (
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/expr"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Input is a field that features of a model are made from.
type Input struct {
	Name string
	Kind value.Kind // Text, Int or Float32, from the encodings of its features
	Many bool       // a record may have several values
	One  bool       // the format of the training data has only one value
}

// Inputs lists the fields that features and their derived columns need, each once. The
// label and the weight are not included unless a feature is made from their fields.
func (e *Encoder) Inputs(src schema.Source) []Input {
	lines := slices.Contains([]string{"csv", "tsv", "criteo"}, src.FormatName()) // a field without separator has one value
	src, s := e.unlabelled(src)
	var list []Input
	at := func(name string) *Input {
		i := slices.IndexFunc(list, func(in Input) bool { return in.Name == name })
		if i < 0 {
			i, list = len(list), append(list, Input{Name: name, Kind: value.Text})
		}
		return &list[i]
	}
	for _, name := range src.Reads(s.Fields()[1:]) {
		at(name)
	}
	read := len(list)
	for _, f := range s.Features {
		in := at(f.Field)
		switch enc, _ := schema.EncodingOf(f.Encode); {
		case enc == schema.Vocabulary || enc == schema.Hash || enc == schema.ID:
			in.Many = true
			if enc == schema.ID && f.Pairs == "" {
				in.Kind = value.Int
			}
		case !enc.Date():
			in.Kind = value.Float32
			in.Many = in.Many || enc == schema.Vector
		}
		if lines && f.Separator == "" && f.Pairs == "" {
			in.One = true
		}
		if f.Weights != "" {
			w := at(f.Weights)
			w.Kind, w.Many = value.Float32, true
		}
	}
	for _, f := range s.Features { // of several features of a field
		if in := at(f.Field); f.Separator != "" || f.Pairs != "" {
			in.One = false
		}
	}
	for i := range list {
		list[i].Many = list[i].Many && !list[i].One
	}
	for _, d := range src.Derive {
		if x, err := expr.Parse(d.Expression()); err == nil {
			for _, f := range x.Fields {
				if f.Number && !f.Text && slices.ContainsFunc(list[:read], func(in Input) bool { return in.Name == f.Name }) {
					at(f.Name).Kind = value.Float32
				}
			}
		}
	}
	return list[:read] // the others are derived
}

// InputCoder returns a RowCoder of records without labels and weights. It ignores
// data.where. newDecoder returns a decoder of the fields that are read.
func (e *Encoder) InputCoder(src schema.Source, newDecoder func(fields []string) record.Decoder) (*RowCoder, error) {
	src, s := e.unlabelled(src)
	p, err := newParserOf(src, s, func(reads []string) (record.Decoder, error) {
		return labelling{newDecoder(reads[1:]), []byte(anyLabel)}, nil
	})
	if err != nil {
		return nil, err
	}
	return &RowCoder{parser: p, coder: newCoder(s, e.stats, p)}, nil
}

// Number returns the number that the record encoded last has in a column, NaN if it has none.
func (r *RowCoder) Number(column string) float64 {
	p := r.parser
	if i := slices.IndexFunc(p.columns, func(c schema.Column) bool { return c.Name == column }); i >= 0 && p.numeric[i] && !p.absent[i] {
		return p.numbers[i]
	}
	return math.NaN()
}

// Vector returns the numbers of a vector of the record encoded last, NaN where it has none. They are
// valid until the next record.
func (r *RowCoder) Vector(column string) []float64 {
	p := r.parser
	i := slices.IndexFunc(p.columns, func(c schema.Column) bool { return c.Name == column })
	if i < 0 || p.absent[i] {
		return nil
	}
	return p.vectors[i]
}

// Forgive makes numbers that are not finite missing values, instead of flaws. It calls count with the
// name of the column of each, and the number of rows that have it. A record of several such values, or
// of a value that several features use, is counted several times.
func (r *RowCoder) Forgive(count func(column string, rows int64)) { r.parser.invalid = count }

// CountUndated calls count with the name of the column of each value that should be a date and is none, and
// the number of rows that have it: it counts as missing or, if strict, is a flaw.
func (r *RowCoder) CountUndated(count func(column string, rows int64), strict bool) {
	r.parser.undated, r.parser.strict = count, strict
}

// noLabel is the name of a column that no file can have; anyLabel is its value in every
// record.
const (
	noLabel  = "\x00label"
	anyLabel = "1"
)

// unlabelled returns a source and the encoder's schema for records without a label.
func (e *Encoder) unlabelled(src schema.Source) (schema.Source, schema.Schema) {
	src.Where, src.Format, src.Header = "", "tfrecord", false
	s := e.schema
	s.Label, s.Labels, s.HoldOut = schema.Label{Field: noLabel, Positive: []string{anyLabel}}, nil, ""
	return src, s
}

// labelling adds the label that the parser needs to every record.
type labelling struct {
	record.Decoder
	label []byte
}

func (d labelling) Decode(b []byte, lists []value.List) *record.Flaw {
	lists[0].SetText(d.label)
	return d.Decoder.Decode(b, lists[1:])
}

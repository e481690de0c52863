package data

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/wdlrun/wdlrun/data/value"
)

// textRecords are the lines of a file, without those that are no records.
type textRecords struct {
	lines
	body     int64
	header   []byte // of the file, nil if it has none
	number   int32
	isRecord func(line []byte) bool
}

func (t *textRecords) begin(s source, f *file, b block, offset int64, number int32) error {
	t.body, t.header, t.number = f.body, f.header, number
	if offset < 0 {
		return t.lines.begin(s, f, b)
	}
	return t.start(s, f.size, offset, b.hi, true)
}

func (t *textRecords) next() (unit, error) {
	for {
		line, at, err := t.lines.next()
		if err != nil {
			return unit{number: t.number, offset: at}, err
		}
		n := t.number
		if t.number++; at >= t.body && t.isRecord(line) {
			u := unit{record: line, offset: at, end: t.off, number: n}
			if len(line) > 0 && bytes.Equal(line, t.header) {
				u.flaw = headerAgain()
			}
			return u, nil
		}
	}
}

// headerAgain is the flaw of a line that says what the header says, word for word, as
// one in the middle of joined files does.
func headerAgain() *flaw {
	return &flaw{field: -1, want: "the header is repeated; remove this line, or let it be left out with data.max_bad"}
}

// linePlace is the line at an offset, counted from 1. It reads the file up to
// there: only whoever found a fault pays for it.
func linePlace(f *file, offset int64) (Fault, error) {
	src, err := f.open()
	if src != nil {
		defer src.Close()
	}
	if err != nil {
		return Fault{}, err
	}
	buf, n := make([]byte, readBytes), int64(1)
	for at := int64(0); at < offset; {
		want := min(int64(len(buf)), offset-at)
		got, err := src.ReadAt(buf[:want], at)
		if err != nil && (err != io.EOF || int64(got) < want) {
			return Fault{}, fmt.Errorf("data: read: %s: %w", f.name, err)
		}
		n += int64(bytes.Count(buf[:got], []byte{'\n'}))
		at += int64(got)
	}
	return Fault{File: f.name, Line: n}, nil
}

func (d *delimited) records([]string) records { return &textRecords{isRecord: d.isRecord} }

func (d *delimited) place(f *file, offset int64) (Fault, error) { return linePlace(f, offset) }

// look reads the names of the fields from the first line that is no comment and
// not blank, if there is a header; the records begin behind it.
func (d *delimited) look(f *file, src source) ([]string, error) {
	if !d.header {
		return d.names, nil
	}
	var l lines
	if err := l.start(src, f.size, f.body, f.size, true); err != nil {
		return nil, fmt.Errorf("data: open: %s: %w", f.name, err)
	}
	for {
		line, _, err := l.next()
		if err == io.EOF {
			return nil, fmt.Errorf("data: open: %s: there is no header: every line is blank or a comment", f.name)
		}
		if err != nil {
			return nil, fmt.Errorf("data: open: %s: header: %w", f.name, err)
		}
		if !d.isRecord(line) {
			continue
		}
		fields, fl := d.split(line, nil)
		if fl != nil {
			return nil, fmt.Errorf("data: open: %s: header: field %d: %q: %s", f.name, fl.field+1, fl.value, fl.want)
		}
		names := make([]string, len(fields))
		for i, b := range fields {
			if names[i] = string(b); len(b) == 0 {
				names[i] = fmt.Sprintf("column_%d", i+1)
			}
		}
		f.body, f.header = l.off, slices.Clone(line)
		return names, nil
	}
}

func (d *delimited) decoder(fields, names []string) (decoder, error) {
	x := &delimitedDecoder{delimited: *d, width: len(fields)}
	x.plain = nil
	for _, name := range names {
		at := -1
		for i, f := range fields {
			if f == name {
				at = i
				break
			}
		}
		x.at = append(x.at, at)
	}
	return x, nil
}

// delimitedDecoder cuts lines of csv and tsv.
type delimitedDecoder struct {
	delimited
	width  int   // fields of a record
	at     []int // of each wanted one, its place in the record
	fields [][]byte
}

func (x *delimitedDecoder) decode(line []byte, lists []value.List) (fl *flaw) {
	if x.fields, fl = x.split(line, x.fields[:0]); fl != nil {
		return fl
	}
	if len(x.fields) != x.width {
		return &flaw{field: -1, width: true, want: fmt.Sprintf("the record has %d fields, %d are expected", len(x.fields), x.width)}
	}
	for i, at := range x.at {
		lists[i].SetText(x.fields[at])
	}
	return nil
}

// isMarked tells whether a line begins as comments do, not as a number, a quoted
// field or an empty one would.
func isMarked(line []byte) bool {
	return len(line) > 0 && bytes.IndexByte([]byte("#%|/!;*>=~@$&"), line[0]) >= 0
}

package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/kernel/delim"
)

// textRecords reads the lines of a file that are records.
type textRecords struct {
	lines
	body     int64
	header   []byte // of the file; nil if there is none
	number   int32
	isRecord func(line []byte) bool
	text     bool // a record with a zero byte is faulty
	carrier
	arranged *Arranged // nil: the fields of lines are in their order
}

// LinesOf returns a reader of the lines for which isRecord returns true.
func LinesOf(isRecord func(line []byte) bool) Records { return &textRecords{isRecord: isRecord} }

func (t *textRecords) Begin(s Content, f *File, b Block, offset int64, number int32) error {
	t.body, t.header, t.number, t.of, t.arranged = f.body, f.header, number, f.carried, nil
	if f.arranged != nil {
		own := *f.arranged // other readers of the file have their own buffers
		own.cuts, own.line = nil, nil
		t.arranged = &own
	}
	if offset < 0 {
		return t.lines.begin(s, f, b)
	}
	return t.start(s, f.size, offset, b.Hi, true)
}

func (t *textRecords) Next() (Unit, error) {
	for {
		line, at, err := t.lines.next()
		if err != nil {
			return Unit{Number: t.number, Offset: at}, err
		}
		n := t.number
		if t.number++; at >= t.body && t.isRecord(line) {
			u := Unit{Record: line, Offset: at, Number: n}
			if t.quotes != nil {
				u.Inner = int32(bytes.Count(line, []byte{'\n'}))
			}
			switch {
			case len(line) > 0 && bytes.Equal(line, t.header):
				u.Flaw = headerAgain()
			case t.text && t.zeros && bytes.IndexByte(line, 0) >= 0:
				u.Flaw = zeroByte()
			default:
				u.Record, u.Stored = t.join(line), line
				if t.arranged != nil {
					u.Record, u.Flaw = t.arranged.Line(u.Record)
				}
			}
			return u, nil
		}
	}
}

// headerAgain returns the flaw of a line equal to the header, as in the middle of
// concatenated files.
func headerAgain() *Flaw {
	return &Flaw{Field: -1, Want: "the header is repeated; remove this line, or skip it with data.max_bad"}
}

// ZeroByte describes a zero byte in a text, and what to do. NAME is the name of the file.
const ZeroByte = "a zero byte in the text, perhaps of UTF-16 text, a damaged file or a broken export; write the file again, or remove these bytes (tr -d '\\000' < NAME > NEW)"

// zeroByte returns the flaw of a line with a zero byte.
func zeroByte() *Flaw {
	return &Flaw{Field: -1, Want: strings.Replace(ZeroByte, "NAME", "FILE", 1)}
}

// linePlace returns the line at an offset, counted from 1. It reads the file up to there,
// so it is only called for a fault.
func linePlace(f *File, offset int64) (Fault, error) {
	src, err := f.Open()
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
			return Fault{}, fmt.Errorf("%s: %w", f.Name, err)
		}
		n += int64(bytes.Count(buf[:got], []byte{'\n'}))
		at += int64(got)
	}
	return Fault{File: f.Name, Line: n}, nil
}

func (d *Delimited) Records([]string) Records {
	return &textRecords{isRecord: d.isRecord, text: true, lines: lines{quotes: d.newQuotes()}}
}

func (d *Delimited) Place(f *File, offset int64) (Fault, error) { return linePlace(f, offset) }

// Look reads the names of the fields from the header, if there is one: the first line that
// is neither comment nor blank. The records begin after it. Records of criteo may lack the label.
func (d *Delimited) Look(f *File, src Content) ([]string, error) {
	f.onwards = d.multiline
	if !d.header && !d.criteo || f.Log != nil {
		return d.names, nil
	}
	l := lines{quotes: d.newQuotes()}
	if err := l.start(src, f.size, f.body, f.size, true); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	line, err := d.record(&l)
	switch {
	case err == io.EOF && d.criteo:
		return d.names, nil
	case err == io.EOF:
		return nil, fmt.Errorf("%s: there is no header: %w", f.Name, ErrNoLine)
	case err != nil && d.header:
		return nil, fmt.Errorf("%s: header: %w", f.Name, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	fields, fl := d.Split(line, nil)
	if d.criteo {
		if len(fields) == len(d.names)-1 {
			return d.names[1:], nil // without the label
		}
		return d.names, nil
	}
	if fl != nil {
		return nil, fmt.Errorf("%s: header: field %d: %q: %s", f.Name, fl.Field+1, fl.Value, fl.Want)
	}
	names := make([]string, len(fields))
	for i, b := range fields {
		names[i] = FieldName(string(b), i)
	}
	f.body, f.header = l.off, slices.Clone(line)
	_, err = d.record(&l)
	f.bare = err == io.EOF
	return names, nil
}

// record returns the next line that is neither comment nor blank.
func (d *Delimited) record(l *lines) (line []byte, err error) {
	for {
		if line, _, err = l.next(); err != nil || d.isRecord(line) {
			return line, err
		}
	}
}

// FieldName returns the name of field i in a header, on one line.
func FieldName(s string, i int) string {
	if s == "" {
		return fmt.Sprintf("column_%d", i+1)
	}
	if strings.ContainsAny(s, "\r\n") {
		return strings.Join(strings.Fields(s), " ")
	}
	return s
}

func (d *Delimited) Decoder(fields, names []string) (Decoder, error) {
	x := &delimitedDecoder{Delimited: *d, width: len(fields), cutter: delim.NewCutter(len(fields))}
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

// delimitedDecoder splits lines of csv and tsv.
type delimitedDecoder struct {
	Delimited
	width  int   // number of fields of a record
	at     []int // index in the record of each needed field
	cutter *delim.Cutter
	fields [][]byte
}

func (x *delimitedDecoder) Decode(line []byte, lists []value.List) (fl *Flaw) {
	if isPlain(line, x.quotes, x.escapes == allEscapes) {
		if fields, blanks := x.cutter.Cut(line, x.Delim); fields != nil {
			x.take(line, fields, blanks, lists)
			return nil
		}
	}
	if x.fields, fl = x.Split(line, x.fields[:0]); fl != nil {
		return fl
	}
	if len(x.fields) != x.width {
		return wrongWidth(len(x.fields), x.width)
	}
	for i, at := range x.at {
		lists[i].SetText(x.fields[at])
	}
	return nil
}

// take sets the lists to the needed fields of a line without quotes.
func (x *delimitedDecoder) take(line []byte, fields []delim.Field, blanks bool, lists []value.List) {
	for i, at := range x.at {
		f := fields[at]
		text := line[f.Lo:f.Hi]
		if blanks {
			text = x.trim(text)
		}
		lists[i].SetText(text)
	}
}

// IsMarked reports whether a line begins like a comment, and not like a number or a quoted
// or empty field.
func IsMarked(line []byte) bool {
	return len(line) > 0 && bytes.IndexByte([]byte("#%|/!;*>=~@$&"), line[0]) >= 0
}

// Layout describes the lines of a decoder of csv and tsv.
type Layout struct {
	Delim   byte
	Quotes  bool
	Escapes bool  // a backslash has a meaning outside of quotes
	Width   int   // number of fields of a record
	At      []int // index in the record of each needed field
}

// IsPlain reports whether a line has neither quotes nor escapes: its fields are what is between
// delimiters.
func (l *Layout) IsPlain(line []byte) bool { return isPlain(line, l.Quotes, l.Escapes) }

// LayoutOf returns the layout of a decoder. It returns false if d decodes another format.
func LayoutOf(d Decoder) (Layout, bool) {
	x, ok := d.(*delimitedDecoder)
	if !ok {
		return Layout{}, false
	}
	return Layout{x.Delim, x.quotes, x.escapes == allEscapes, x.width, x.at}, true
}

// HasLineBreaks reports whether a quoted field among the first bytes of a file, at most
// most, contains a line break such that the record has as many fields as the first one. An
// unclosed quote does not count.
func (d *Delimited) HasLineBreaks(f *File, most int64) (found bool, err error) {
	src, err := f.Open()
	if err != nil {
		return false, err
	}
	defer src.Close()
	l := lines{quotes: d.newQuotes()}
	if err := l.start(src, f.size, f.mark, min(f.size, most), true); err != nil {
		return false, fmt.Errorf("%s: %w", f.Name, err)
	}
	var fields [][]byte
	for width := 0; ; {
		line, _, err := l.next()
		if err == io.EOF || errors.Is(err, ErrLongLine) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("%s: %w", f.Name, err)
		}
		breaks := bytes.IndexByte(line, '\n') >= 0
		if !breaks && width > 0 || !d.isRecord(line) {
			continue
		}
		var fl *Flaw
		fields, fl = d.Split(line, fields[:0])
		if width == 0 && fl == nil {
			width = len(fields)
		}
		if breaks && fl == nil && len(fields) == width {
			return true, nil
		}
	}
}

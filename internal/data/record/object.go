package record

import (
	"bytes"
	"fmt"
	"regexp"

	"github.com/wdlrun/wdlrun/internal/data/jsonl"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/text/pattern"
)

// objectFormat is JSON objects, one per line.
type objectFormat struct{}

// Look returns the union of the names of fields in the first records, in order of
// occurrence.
func (o objectFormat) Look(f *File, s Content) ([]string, error) {
	if err := f.OneValue(); err != nil {
		return nil, err
	}
	names, err := firstNames(o, f, s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	case len(names) == 0:
		return nil, fmt.Errorf("%s: none of its first lines is a JSON object%s", f.Name, f.AsLines())
	}
	return names, nil
}

var _ naming = objectFormat{}

func (objectFormat) names(record []byte, each func([]byte, bool)) {
	_ = jsonl.Fields(record, each) // the scan reports faults
}

func (objectFormat) Records([]string) Records {
	return &textRecords{isRecord: func(line []byte) bool { return len(bytes.TrimLeft(line, " \t\r")) > 0 }}
}

func (objectFormat) Place(f *File, offset int64) (Fault, error) { return linePlace(f, offset) }

func (objectFormat) Decoder(_, names []string) (Decoder, error) {
	return objectDecoder{jsonl.NewDecoder(names)}, nil
}

type objectDecoder struct{ *jsonl.Decoder }

func (d objectDecoder) Decode(record []byte, lists []value.List) *Flaw {
	if err := d.Decoder.Decode(record, lists); err != nil {
		return &Flaw{Field: -1, Want: err.Error()}
	}
	return nil
}

// AsLines returns advice for a JSON file of another layout; "" for any other file.
func (f *File) AsLines() string {
	head, err := f.Read(1 << 10)
	if head = bytes.TrimPrefix(head, []byte(BOM)); err != nil {
		return ""
	}
	switch head = bytes.TrimLeft(head, " \t\r\n"); {
	case areArrays(head):
		return fmt.Sprintf(": its lines are arrays; write each as an object, which names its fields: jq -c '{a: .[0], b: .[1]}' %s", f.Name)
	case bytes.HasPrefix(head, []byte("[")):
		return fmt.Sprintf(": it is JSON in one array; write an object a line: jq -c '.[]' %s, or in pandas to_json(..., orient=\"records\", lines=True)", f.Name)
	case bytes.HasPrefix(head, []byte("{")):
		return fmt.Sprintf(": its first line is not a complete object; write an object a line: jq -c . %s", f.Name)
	}
	return ""
}

// OneValue returns the error of a file that is one JSON value on one line and holds a whole
// table, as pandas writes it; nil for any other file.
func (f *File) OneValue() error {
	head, err := f.Read(1 << 12)
	if err != nil {
		return nil // the reader reports it
	}
	orient := orientOf(bytes.TrimPrefix(head, []byte(BOM)))
	if orient == "" {
		return nil
	}
	return fmt.Errorf("%s: it is one JSON value, such as pandas writes with to_json(orient=%q), and not one object per record; write it with to_json(..., orient=\"records\", lines=True)", f.Name, orient)
}

// orients are the beginnings of files that pandas' to_json writes. A table of orient index has
// rows called 0, 1 and so on, unless its index is another.
var orients = []struct {
	name   string
	begins func() *regexp.Regexp
}{
	{"values", pattern.Lazy(`^\[\[`)},
	{"split", pattern.Lazy(`^\{"columns":\[.*"index":\[`)},
	{"table", pattern.Lazy(`^\{"schema":\{"fields":\[`)},
	{"index", pattern.Lazy(`^\{"0":\{"`)},
	{"columns", pattern.Lazy(`^\{"(?:[^"\\]|\\.)*":\{"0":`)},
}

// orientOf returns the orient of pandas' to_json with which a file was written, by its
// beginning; "" if it has several lines, or none fits.
func orientOf(head []byte) string {
	line, rest, _ := bytes.Cut(bytes.TrimLeft(head, " \t\r\n"), []byte{'\n'})
	if len(bytes.TrimSpace(rest)) > 0 {
		return ""
	}
	for _, o := range orients {
		if o.begins().Match(line) {
			return o.name
		}
	}
	return ""
}

// areArrays reports whether a file begins with at least two lines that each hold an array.
func areArrays(head []byte) bool {
	first, rest, more := bytes.Cut(head, []byte{'\n'})
	is := func(line []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(line, " \t\r"), []byte("[")) }
	return more && is(first) && bytes.HasSuffix(bytes.TrimRight(first, " \t\r"), []byte("]")) && is(rest)
}

// IsObjects reports whether a file begins with JSON objects, one per line.
func IsObjects(head []byte) bool {
	line, _, whole := bytes.Cut(bytes.TrimLeft(bytes.TrimPrefix(head, []byte(BOM)), " \t\r\n"), []byte{'\n'})
	if !jsonl.Is(line) || !whole {
		return jsonl.Is(line)
	}
	return jsonl.Names(line, func([]byte) {}) == nil
}

package data

import (
	"bytes"
	"fmt"

	"github.com/wdlrun/wdlrun/data/jsonl"
	"github.com/wdlrun/wdlrun/data/value"
)

// objectFormat is JSON objects, one a line.
type objectFormat struct{}

// look joins the names of fields in the first records, in the order in which they
// come.
func (o objectFormat) look(f *file, s source) ([]string, error) {
	names, err := firstNames(o, f, s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("data: open: %s: %w", f.name, err)
	case len(names) == 0:
		return nil, fmt.Errorf("data: open: %s: none of its first lines is a JSON object%s", f.name, f.asLines())
	}
	return names, nil
}

func (objectFormat) names(record []byte, each func([]byte)) {
	_ = jsonl.Names(record, each) // the scan tells
}

func (objectFormat) records([]string) records {
	return &textRecords{isRecord: func(line []byte) bool { return len(bytes.TrimLeft(line, " \t\r")) > 0 }}
}

func (objectFormat) place(f *file, offset int64) (Fault, error) { return linePlace(f, offset) }

func (objectFormat) decoder(_, names []string) (decoder, error) {
	return objectDecoder{jsonl.NewDecoder(names)}, nil
}

type objectDecoder struct{ *jsonl.Decoder }

func (d objectDecoder) decode(record []byte, lists []value.List) *flaw {
	if err := d.Decode(record, lists); err != nil {
		return &flaw{field: -1, want: err.Error()}
	}
	return nil
}

// asLines is what to do with a file of JSON that is laid out in another way; "" if
// it is none.
func (f *file) asLines() string {
	head, err := f.read(1 << 10)
	if head = bytes.TrimPrefix(head, []byte(bom)); err != nil {
		return ""
	}
	switch head = bytes.TrimLeft(head, " \t\r\n"); {
	case areArrays(head):
		return fmt.Sprintf(": its lines are arrays; write each as an object, which names its fields: jq -c '{a: .[0], b: .[1]}' %s", f.name)
	case bytes.HasPrefix(head, []byte("[")):
		return fmt.Sprintf(": it is JSON in one array; write an object a line: jq -c '.[]' %s", f.name)
	case bytes.HasPrefix(head, []byte("{")):
		return fmt.Sprintf(": its first line is no whole object; write an object a line: jq -c . %s", f.name)
	}
	return ""
}

// areArrays tells whether a file begins with two lines or more that each hold an array.
func areArrays(head []byte) bool {
	first, rest, more := bytes.Cut(head, []byte{'\n'})
	is := func(line []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(line, " \t\r"), []byte("[")) }
	return more && is(first) && bytes.HasSuffix(bytes.TrimRight(first, " \t\r"), []byte("]")) && is(rest)
}

// isObjects tells whether the beginning of a file is that of JSON objects, one a line.
func isObjects(head []byte) bool {
	line, _, whole := bytes.Cut(bytes.TrimLeft(bytes.TrimPrefix(head, []byte(bom)), " \t\r\n"), []byte{'\n'})
	if !jsonl.Is(line) || !whole {
		return jsonl.Is(line)
	}
	return jsonl.Names(line, func([]byte) {}) == nil
}

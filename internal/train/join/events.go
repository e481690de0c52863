package join

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/internal/data/jsonl"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Fields are the fields that the join reads of the records of one side.
type Fields struct {
	Key   []string
	Time  string
	Value string // of feedback: the label; "": it is 1
	Label string // of impressions: field of samples, which no impression may have
}

// needed returns the fields that every record must have.
func (f *Fields) needed() []string {
	names := append(slices.Clone(f.Key), f.Time)
	if f.Value != "" {
		names = append(names, f.Value)
	}
	return names
}

// event is a record of either side. Its slices are valid until the next one.
type event struct {
	key    Key
	time   int64
	value  []byte // of feedback, JSON
	object []byte // JSON
}

// decoder makes events of records.
type decoder struct {
	Fields
	missing []string // words that mean missing
	text    []byte
	json    []byte
	object  []byte
}

// decode makes an event of the fields needed and, if there is a Label, of that one. why is not empty
// if the record cannot be used.
func (d *decoder) decode(lists []value.List) (e event, why string) {
	n := len(d.Key)
	d.text = d.text[:0]
	for i := range n {
		at := len(d.text)
		if d.text = d.first(d.text, &lists[i]); len(d.text) == at {
			return e, fmt.Sprintf("no key: it has no field %q", d.Key[i])
		}
		d.text = append(d.text, 0)
	}
	e.key = xxh3.Hash128(d.text)
	text := d.first(d.text[:0], &lists[n])
	d.text = text
	if len(text) == 0 {
		return e, fmt.Sprintf("no time: it has no field %q", d.Time)
	}
	ok := false
	if e.time, ok = millisOf(&lists[n], text); !ok {
		return e, fmt.Sprintf("no time: field %q is %q, which is neither ISO 8601 nor a Unix time", d.Time, record.CutLong(text))
	}
	switch n++; {
	case d.Label != "" && n < len(lists) && lists[n].Places() > 0:
		return e, fmt.Sprintf("it has a field %q, as the label of samples: give the label another name", d.Label)
	case d.Value == "":
		e.value = []byte("1")
	default:
		if d.text = d.first(d.text[:0], &lists[n]); len(d.text) == 0 {
			return e, fmt.Sprintf("no label: it has no field %q", d.Value)
		}
		var err error
		if d.json, err = appendJSON(d.json[:0], &lists[n]); err != nil {
			return e, fmt.Sprintf("field %q %v", d.Value, err)
		}
		e.value = d.json
	}
	return e, ""
}

// first appends the text of the values of a field; nothing if it is missing.
func (d *decoder) first(dst []byte, l *value.List) []byte {
	at := len(dst)
	for i := range l.Len() {
		if i > 0 {
			dst = append(dst, 1)
		}
		dst = l.Append(dst, i)
	}
	for _, word := range d.missing {
		if string(dst[at:]) == word {
			return dst[:at]
		}
	}
	return dst
}

// objectOf makes a JSON object of all fields of a record. why is not empty if JSON cannot hold it.
func (d *decoder) objectOf(names []string, lists []value.List) (object []byte, why string) {
	d.object = append(d.object[:0], '{')
	for i, name := range names {
		var err error
		if i > 0 {
			d.object = append(d.object, ',')
		}
		if d.object, err = jsonl.AppendString(d.object, []byte(name)); err == nil {
			d.object, err = appendJSON(append(d.object, ':'), &lists[i])
		}
		if err != nil {
			return nil, fmt.Sprintf("field %q %v", name, err)
		}
	}
	d.object = append(d.object, '}')
	return d.object, ""
}

// appendJSON appends the values of a field. NaN is missing, as in training.
func appendJSON(dst []byte, l *value.List) ([]byte, error) {
	if (l.Kind == value.Float32 || l.Kind == value.Float64) && l.Places() == 1 && math.IsNaN(l.Reals[0]) {
		return append(dst, "null"...), nil
	}
	return jsonl.AppendList(dst, l, l.Places() > 1, false)
}

// oneLine returns a JSON object without line breaks around or in it.
func oneLine(object []byte) []byte {
	object = bytes.TrimSpace(object)
	if bytes.IndexByte(object, '\n') < 0 {
		return object
	}
	return bytes.ReplaceAll(object, []byte{'\n'}, []byte{' '})
}

// appendSample appends an impression with its label, as one line. label is the name as JSON.
func appendSample(dst, object, label, value []byte) []byte {
	dst = append(dst, bytes.TrimRight(object[:len(object)-1], " \t\r")...)
	dst = append(append(dst, ','), label...)
	return append(append(append(dst, ':'), value...), "}\n"...)
}

package body

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/wdlrun/wdlrun/internal/serve/tfs"
)

// AppendPredictions appends the response to a predict request: row by row for instances,
// column by column for inputs. As in TensorFlow Serving, a single output has no name.
func AppendPredictions(dst []byte, outputs []tfs.Output, instances bool) []byte {
	single := len(outputs) == 1
	if !instances {
		dst = append(dst, `{"outputs": `...)
		if single {
			return append(appendColumn(dst, &outputs[0]), "}\n"...)
		}
		dst = append(dst, '{')
		for i := range outputs {
			dst = appendColumn(appendName(comma(dst, i), outputs[i].Name), &outputs[i])
		}
		return append(dst, "}}\n"...)
	}
	dst = append(dst, `{"predictions": [`...)
	for row := range outputs[0].Values {
		if dst = comma(dst, row); single {
			dst = appendValue(dst, &outputs[0], row)
			continue
		}
		dst = append(dst, '{')
		for i := range outputs {
			dst = appendValue(appendName(comma(dst, i), outputs[i].Name), &outputs[i], row)
		}
		dst = append(dst, '}')
	}
	return append(dst, "]}\n"...)
}

// appendColumn appends the values of all rows.
func appendColumn(dst []byte, o *tfs.Output) []byte {
	dst = append(dst, '[')
	for row := range o.Values {
		dst = appendValue(comma(dst, row), o, row)
	}
	return append(dst, ']')
}

// appendValue appends the value of one row.
func appendValue(dst []byte, o *tfs.Output, row int) []byte {
	if o.Column {
		return append(appendNumber(append(dst, '['), o.Values[row]), ']')
	}
	return appendNumber(dst, o.Values[row])
}

// AppendClasses appends the response to a classify request: label and score of each class.
func AppendClasses(dst []byte, classes []tfs.Class) []byte {
	dst = append(dst, `{"results": [`...)
	for row := range classes[0].Scores {
		dst = append(comma(dst, row), '[')
		for i, c := range classes {
			dst = append(comma(dst, i), '[')
			dst = append(appendText(dst, c.Label), ", "...)
			dst = append(appendNumber(dst, c.Scores[row]), ']')
		}
		dst = append(dst, ']')
	}
	return append(dst, "]}\n"...)
}

// AppendValues appends the response to a regress request.
func AppendValues(dst []byte, values []float32) []byte {
	dst = append(dst, `{"results": [`...)
	for i, x := range values {
		dst = appendNumber(comma(dst, i), x)
	}
	return append(dst, "]}\n"...)
}

func comma(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ", "...)
	}
	return dst
}

func appendName(dst []byte, name string) []byte { return append(appendText(dst, name), ": "...) }

func appendText(dst []byte, s string) []byte {
	b, err := json.Marshal(s)
	if err != nil { // a string always has a JSON form
		return append(dst, `""`...)
	}
	return append(dst, b...)
}

// appendNumber appends the shortest decimal of a 32-bit number. Values that JSON cannot
// represent are written as TensorFlow Serving does.
func appendNumber(dst []byte, x float32) []byte {
	switch y := float64(x); {
	case math.IsNaN(y):
		return append(dst, "NaN"...)
	case math.IsInf(y, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(y, -1):
		return append(dst, "-Infinity"...)
	default:
		return strconv.AppendFloat(dst, y, 'g', -1, 32)
	}
}

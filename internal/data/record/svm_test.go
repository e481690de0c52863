package record

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// longestID is the maximum number of digits of an index, with leading zeros.
const longestID = 20

// svmSays parses a line of LibSVM or LibFFM by its definition, with the standard library:
// the label and, for each field (one in LibSVM), indices and values. It returns false for
// any other line.
func svmSays(line string, fields bool) (label string, indices map[uint64][]int64, values map[uint64][]float64, ok bool) {
	indices, values = map[uint64][]int64{}, map[uint64][]float64{}
	line, _, _ = strings.Cut(line, "#")
	words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(words) == 0 {
		return "", indices, values, true
	}
	if !strings.Contains(words[0], ":") {
		if label = words[0]; len(label) > 1 {
			label = strings.TrimPrefix(label, "+")
		}
		words = words[1:]
	}
	for _, w := range words {
		parts := strings.SplitN(w, ":", 3)
		field := uint64(0)
		switch {
		case !fields && strings.HasPrefix(w, "qid:"):
			continue
		case !fields:
			parts = strings.SplitN(w, ":", 2)
		case len(parts) != 3:
			return "", nil, nil, false
		default:
			n, err := strconv.ParseUint(parts[0], 10, 64)
			if err != nil || len(parts[0]) > longestID {
				return "", nil, nil, false
			}
			field, parts = n, parts[1:]
		}
		if len(parts) != 2 || len(strings.TrimPrefix(parts[0], "-")) > longestID {
			return "", nil, nil, false
		}
		index, err := strconv.ParseUint(parts[0], 10, 64)
		if fields && strings.HasPrefix(parts[0], "-") { // fields of LibFFM are read as two's complement
			var n int64
			n, err = strconv.ParseInt(parts[0], 10, 64)
			index = uint64(n)
		}
		x, why := value.ParseNumber([]byte(parts[1]))
		if err != nil || why != "" {
			return "", nil, nil, false
		}
		indices[field] = append(indices[field], int64(index))
		values[field] = append(values[field], x)
	}
	return label, indices, values, true
}

// sameSVM compares the results of a decoder and of svmSays for a line.
func sameSVM(t *testing.T, line string, fields bool) {
	t.Helper()
	names, of := []string{"label", "features", "values"}, []uint64{0}
	if fields {
		names, of = []string{"label", "0", "0_values", "7", "7_values"}, []uint64{0, 7}
	}
	d, err := svmFormat{fields: fields}.Decoder(nil, names)
	fatal.If(t, err)
	lists := make([]value.List, len(names))
	fl := d.Decode([]byte(line), lists)
	label, indices, values, ok := svmSays(line, fields)
	if (fl == nil) != ok {
		t.Fatalf("%q: %+v, by its definition it is right: %v", line, fl, ok)
	}
	if fl != nil {
		return
	}
	if got := string(bytes.Join(lists[0].Texts, []byte{' '})); got != label || strings.Contains(got, ":") {
		t.Fatalf("%q: label %q, want %q", line, got, label)
	}
	for i, f := range of {
		ints, reals := lists[1+2*i], lists[2+2*i]
		if ints.Len() != len(indices[f]) || ints.Len() > 0 && !slices.Equal(ints.Ints, indices[f]) ||
			reals.Len() != len(values[f]) || reals.Len() > 0 && !slices.EqualFunc(reals.Reals, values[f], func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }) {
			t.Fatalf("%q: field %d is %v and %v, want %v and %v", line, f, ints, reals, indices[f], values[f])
		}
	}
}

var svmLines = []string{
	"1 0:1 7:0.5", "-1 qid:3 1:1", "+1 7:3:1 0:9:2.5 # a comment", "0", "", " 1\t0:1", "1 0:", "1 :1", "1 0", "1 a:1", "1 0:x", "1 -1:1",
	"1 7:-5:1", "1 -7:5:1", "1 0:1:2", "1 7:1:2:3", "1 18446744073709551615:1", "1 18446744073709551616:1", "1 1:1e400", "1 1:nan", "+ 1:1", "1 qid:", "1 7:1:", "1 0x1:1", "3:1 7:0.5", "qid:2 3:1", "7:3:1 0:9:2.5",
}

func TestSVMSaysWhatItMeans(t *testing.T) {
	for _, line := range svmLines {
		for n := range len(line) + 1 { // also every prefix
			sameSVM(t, line[:n], false)
			sameSVM(t, line[:n], true)
		}
	}
}

func FuzzSVM(f *testing.F) {
	for _, line := range svmLines {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		sameSVM(t, line, false)
		sameSVM(t, line, true)
	})
}

package arrays

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/table"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// maxValues limits the bytes of a file of values.
const maxValues = 2 << 30

// Value is a value and the row of an array that stands for it. A value of nil is a missing one.
type Value struct {
	Text []byte
	Row  int
}

// ReadValues reads the values of the rows of a table from Parquet with the columns value and row, or
// from JSON: an object of value and row, or a list of the values in the order of the rows, in which
// null is no value. An object may have such an object for each of several names, as the feature_vocab.json of
// FuxiCTR has: the first of names that it has is read.
func ReadValues(path string, names ...string) (all []Value, err error) {
	if filepath.Ext(path) == ".parquet" {
		f, err := regular.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return nil, err
		}
		all, err = valuesOf(f, info.Size())
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return all, err
	}
	b, err := regular.ReadFile(path, maxValues)
	if err == nil {
		if all, err = valuesIn(b, names...); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	return all, err
}

// valuesOf reads the columns value and row of a Parquet file.
func valuesOf(r io.ReaderAt, size int64) (all []Value, err error) {
	err = rows(r, size, []string{"value", "row"}, func(i int, lists []value.List) error {
		if lists[1].Len() != 1 || lists[1].Kind != value.Int {
			return fmt.Errorf("row %d: its column row is no integer", i)
		}
		v := Value{Row: int(lists[1].Ints[0])}
		if lists[0].Len() > 0 {
			v.Text = textOf(&lists[0], 0)
		}
		all = append(all, v)
		return nil
	})
	if errors.Is(err, errNoVectors) {
		err = errors.New("it must have the columns value and row")
	}
	return all, err
}

func textOf(l *value.List, i int) []byte { return append([]byte{}, l.Append(nil, i)...) }

func valuesIn(b []byte, names ...string) (all []Value, err error) {
	if b, err = vocabularyIn(b, names); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return nil, err
			}
			var row int
			if err := d.Decode(&row); err != nil {
				return nil, fmt.Errorf("value %q: its row is no integer", k)
			}
			all = append(all, Value{[]byte(k.(string)), row})
		}
	case json.Delim('['):
		for row := 0; d.More(); row++ {
			var x any
			if err := d.Decode(&x); err != nil {
				return nil, err
			}
			switch x := x.(type) {
			case nil:
			case string:
				all = append(all, Value{[]byte(x), row})
			case json.Number:
				all = append(all, Value{[]byte(x.String()), row})
			default:
				return nil, fmt.Errorf("entry %d of the list is no value", row)
			}
		}
	default:
		return nil, errors.New("it must be an object of value and row, or a list of values")
	}
	_, err = d.Token() // the end
	return all, err
}

// vocabularyIn returns the object of the first of some names, if b is an object of objects; b otherwise.
func vocabularyIn(b []byte, names []string) ([]byte, error) {
	var all map[string]json.RawMessage
	if json.Unmarshal(b, &all) != nil || len(all) == 0 {
		return b, nil
	}
	for _, x := range all {
		if len(x) == 0 || x[0] != '{' {
			return b, nil
		}
	}
	for _, name := range names {
		if x, ok := all[name]; ok {
			return x, nil
		}
	}
	return nil, fmt.Errorf("it has vocabularies of %s, and none of %s", strings.Join(slices.Sorted(maps.Keys(all)), ", "), strings.Join(names, " or "))
}

// errNoVectors means that a Parquet file has no columns value and vector.
var errNoVectors = errors.New("it has no columns value and vector")

// vectors reads a Parquet file with a value and a vector in each row.
func vectors(r io.ReaderAt, size int64, name string) ([]*Array, error) {
	a := &Array{Name: name, Values: []string{}}
	a.kind, _ = kindNamed("F32")
	var data []byte
	width, err := eachVector(r, size, func(value []byte, vector []float32) error {
		a.Values = append(a.Values, string(value))
		for _, x := range vector {
			data = le.AppendUint32(data, math.Float32bits(x))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	a.Shape = []int{len(a.Values), width}
	a.parts = []part{{from: bytes.NewReader(data), origin: []int{0, 0}, shape: a.Shape, strides: dense(a.Shape, false)}}
	return []*Array{a}, nil
}

// EachVector calls f with the value and the vector of every row of a Parquet file with the columns
// value and vector. All vectors have one width, and all numbers are finite. Both slices are valid
// until f returns.
func EachVector(path string, f func(value []byte, vector []float32) error) error {
	file, err := regular.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	n := -1
	_, err = eachVector(file, info.Size(), func(value []byte, vector []float32) error {
		n++
		for i, x := range vector {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				return fmt.Errorf("row %d: number %d of the vector of %q is %v: correct or remove this row", n, i, value, x)
			}
		}
		return f(value, vector)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// eachVector calls f with the value and the vector of every row of a Parquet file, and returns the
// width of the vectors.
func eachVector(r io.ReaderAt, size int64, f func(value []byte, vector []float32) error) (int, error) {
	width, text, vector := -1, []byte(nil), []float32(nil)
	err := rows(r, size, []string{"value", "vector"}, func(i int, lists []value.List) error {
		if lists[0].Len() != 1 {
			return fmt.Errorf("row %d: its value is missing", i)
		}
		v := &lists[1]
		if v.Places() != v.Len() {
			return fmt.Errorf("row %d: its vector has a null", i)
		}
		if width < 0 {
			width = v.Len()
		}
		if v.Len() != width || width == 0 {
			return fmt.Errorf("row %d: its vector has %d numbers, that of row 0 has %d", i, v.Len(), width)
		}
		text, vector = lists[0].Append(text[:0], 0), vector[:0]
		for k := range width {
			x, ok := numberOf(v, k)
			if !ok {
				return fmt.Errorf("row %d: its vector is not made of numbers", i)
			}
			vector = append(vector, float32(x))
		}
		return f(text, vector)
	})
	return max(0, width), err
}

// rows calls f with two columns of every row of a Parquet file.
func rows(r io.ReaderAt, size int64, columns []string, f func(i int, lists []value.List) error) error {
	t, err := table.Open(r, size)
	if err != nil {
		return err
	}
	for _, c := range columns {
		if !slices.Contains(t.Columns(), c) {
			return fmt.Errorf("%w; it has %s", errNoVectors, strings.Join(t.Columns(), ", "))
		}
	}
	i, lists, row := 0, make([]value.List, len(columns)), []byte(nil)
	for g, n := range t.Groups() {
		in, err := t.Rows(g, columns, false)
		if err != nil {
			return err
		}
		for range n {
			if row, err = in.Append(row[:0]); err != nil {
				return fmt.Errorf("row %d: %w", i, err)
			}
			if err = table.Decode(row, lists); err == nil {
				err = f(i, lists)
			}
			if err != nil {
				return err
			}
			i++
		}
		in.Close()
	}
	return nil
}

// numberOf returns a number of a list.
func numberOf(l *value.List, i int) (float64, bool) {
	switch l.Kind {
	case value.Int:
		return float64(l.Ints[i]), true
	case value.Text, value.None:
		return 0, false
	}
	return l.Reals[i], true
}

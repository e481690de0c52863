package export

import (
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// With OnnxOptions.Rows, the caller looks values up, and the graph takes the numbers of rows: −1 is a
// missing value and the end of a list, and the last row, of zeros, an unknown value.

// noRow is the number of a missing value.
const noRow = -1

// row declares the input of the rows of a feature.
func (s *inputSet) row(feature string, list bool) (x found) {
	g, t := s.g, s.tables[feature]
	in := s.add(OnnxInput{
		Name: feature + ":row", Type: "int32", List: list, Missing: strconv.Itoa(noRow), Unknown: strconv.Itoa(s.unknownRow(feature)),
		Key: feature, Rows: s.lookup(feature),
	}, feature)
	none := g.on("Equal", in, g.scalarRow(noRow))
	x.at = g.on("Where", none, g.scalarRow(t.row(encode.KeyMissing)), in)
	if list {
		x.mask = g.first(g.on("Not", none))
	}
	return x
}

// unknownRow returns the row of a value that training has not seen.
func (s *inputSet) unknownRow(feature string) int {
	t := s.tables[feature]
	if s.vocabulary(feature) != nil {
		return t.row(encode.KeyUnknown)
	}
	return len(t.keys)
}

// vocabulary returns a feature if it has words.
func (s *inputSet) vocabulary(feature string) *fitted {
	i := slices.IndexFunc(s.fits, func(f fitted) bool { return f.Name == feature && f.encoding() == schema.Vocabulary })
	if i < 0 {
		return nil
	}
	return &s.fits[i]
}

// lookup returns the name of the file with the rows of a feature.
func (s *inputSet) lookup(feature string) string {
	if s.vocabulary(feature) != nil {
		return fileName("words/"+feature) + ".json"
	}
	return fileName("keys/"+s.tables[feature].name) + ".npy"
}

// intervalRow returns the row of the interval of a number.
func (s *inputSet) intervalRow(f *fitted, t *onnxTable) string {
	g, in, limits := s.g, s.number(f), f.edges()
	var rows []int32
	for i := range len(limits) + 1 {
		rows = append(rows, int32(t.row(uint64(i))))
	}
	missing := int64(len(rows))
	rows = append(rows, int32(t.row(encode.KeyMissing)))
	at := g.on("Where", g.on("IsNaN", in), g.scalarInt(missing), s.count(in, limits))
	return g.on("Gather", g.constant(onnxInt32, []int{len(rows)}, raw.Bytes(rows)), at)
}

// lookups writes the files that inputs name: an object of words, or the keys of a table, ascending, whose
// places are their rows.
func (s *inputSet) lookups(dir string) error {
	files := map[string]string{} // a feature of each
	for _, in := range s.all {
		if in.Rows != "" {
			files[in.Rows] = in.Key
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		t := s.tables[files[name]]
		write := func(w io.Writer) error {
			a := array{kind: typeI64, shape: []int{len(t.keys)}}
			_, err := w.Write(append(npyHead(&a), raw.Bytes(t.keys)...))
			return err
		}
		if f := s.vocabulary(files[name]); f != nil {
			words, rows := t.words(f)
			all := map[string]int{}
			for i := range words[1:] { // the first is the missing value
				all[words[1+i]] = rows[1+i]
			}
			if f.Padding != "" {
				all[f.Padding] = noRow
			}
			text, err := json.Marshal(all)
			if err != nil {
				return err
			}
			write = content(append(text, '\n'))
		}
		if _, err := whole(system{}, dir, name, write); err != nil {
			return err
		}
	}
	return nil
}

package export

import (
	"context"
	_ "embed"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// checkScript compares a runtime with check.json.
//
//go:embed check.py
var checkScript []byte

// sample is some records, encoded. A nil *sample has none.
type sample struct {
	batch   encode.Batch
	coder   *encode.RowCoder
	numbers map[string][]float64   // by field, row by row: numbers and vectors
	rows    []map[uint64][]float32 // by table: rows of the keys of the batch
	lists   map[string]bool        // fields with several values in a row, see record.Files.Lists
}

// takeSample reads the first records.
func takeSample(ctx context.Context, from schema.Source, features []schema.Feature, e *encode.Encoder, tables int) (*sample, error) {
	if from.Follow.On {
		return nil, errors.New("the training data grows")
	}
	files, err := record.OpenFiles(from, from.Train)
	if err != nil {
		return nil, err
	}
	s := &sample{numbers: map[string][]float64{}, rows: make([]map[uint64][]float32, tables)}
	var fields []string
	var now walked
	s.coder, err = e.InputCoder(from, func(read []string) record.Decoder {
		fields = read
		return &now
	})
	if err != nil {
		return nil, err
	}
	s.coder.Forgive(func(string, int64) {})
	b := encode.NewBatcher(s.coder)
	b.Start(&s.batch, warmupRecords)
	if s.lists, err = files.Lists(ctx, fields); err != nil {
		return nil, err
	}
	n := 0
	if _, err := files.Walk(ctx, fields, 0, func(lists []value.List) error {
		now.lists = lists
		row, fl := b.Row(nil)
		if fl != nil {
			return nil // a record that training does not count
		}
		s.read(features)
		if fl := b.Add(&s.batch, row); fl != nil {
			return errors.New(fl.Want)
		}
		if n++; n == warmupRecords {
			return record.Stop
		}
		return nil
	}, nil); err != nil {
		return nil, err
	}
	b.Finish(&s.batch)
	if n == 0 {
		return nil, errors.New("it has no record")
	}
	return s, nil
}

// multi returns the features and crosses whose inputs have several values in a row. Weights belong to lists.
func (s *sample) multi(c *config.Config) map[string]bool {
	lists := map[string]bool{}
	if s != nil {
		maps.Copy(lists, s.lists)
	}
	for _, f := range c.Features {
		if f.Weights != "" {
			lists[f.Field] = true
		}
	}
	return encode.Multi(schema.Schema{Features: c.Features, Crosses: c.Crosses}, lists)
}

// walked is the decoder of records whose values are known.
type walked struct{ lists []value.List }

func (w *walked) Decode(_ []byte, to []value.List) *record.Flaw {
	copy(to, w.lists)
	return nil
}

// read keeps the numbers of a record.
func (s *sample) read(features []schema.Feature) {
	seen := map[string]bool{}
	for _, f := range features {
		e, _ := schema.EncodingOf(f.Encode)
		if seen[f.Field] || !e.Number() && e != schema.Vector {
			continue
		}
		seen[f.Field] = true
		if e != schema.Vector {
			s.numbers[f.Field] = append(s.numbers[f.Field], s.coder.Number(f.Field))
			continue
		}
		x := s.coder.Vector(f.Field)
		for i := range int(f.Size) {
			if x == nil {
				s.numbers[f.Field] = append(s.numbers[f.Field], math.NaN())
			} else {
				s.numbers[f.Field] = append(s.numbers[f.Field], x[i])
			}
		}
	}
}

// loadRows keeps the rows of a table that the records need.
func (s *sample) loadRows(i int, t *sorted) {
	if s == nil {
		return
	}
	s.rows[i] = map[uint64][]float32{}
	width := widthOf(t.of)
	for _, column := range s.batch.Sparse {
		for _, key := range column.Values {
			if at, ok := slices.BinarySearchFunc(t.keys, key, compareSigned); ok && s.rows[i][key] == nil {
				s.rows[i][key] = slices.Clone(t.rows[at*width : (at+1)*width])
			}
		}
	}
}

// Read implements step.Rows.
func (s *sample) Read(queries []step.Query) error {
	for _, q := range queries {
		width := len(q.Values) / max(1, len(q.Keys))
		for i, key := range q.Keys {
			to := q.Values[i*width : (i+1)*width]
			if row := s.rows[q.Table][key]; row != nil {
				copy(to, row)
			} else {
				table.FillUnknown(to)
			}
		}
	}
	return nil
}

// checkTensor is an input in check.json.
type checkTensor struct {
	Type   string `json:"type"`
	Shape  []int  `json:"shape"`
	Values []any  `json:"values"` // null is NaN
}

// checks is check.json: the records as inputs, and what the model computes, record by record.
type checks struct {
	Inputs map[string]checkTensor `json:"inputs"`
	Logit  [][]float32            `json:"logit"`
	Score  [][]float64            `json:"score"`
}

// write writes check.json and check.py, and returns the number of records.
func (s *sample) write(dir string, c *config.Config, l layout.Layout, p *step.Parameters, inputs *inputSet) (int, error) {
	if s == nil {
		return 0, nil
	}
	scorer, err := step.NewScorer(c, l, p, s)
	if err != nil {
		return 0, err
	}
	logits, err := scorer.Score(&s.batch)
	if err != nil {
		return 0, err
	}
	n := s.batch.Rows
	x := checks{Inputs: map[string]checkTensor{}, Logit: make([][]float32, n), Score: make([][]float64, n)}
	labels := schema.Schema{Label: c.Label, Labels: c.Labels}
	for t, label := range labels.All() {
		for i, logit := range logits[t*n : (t+1)*n] {
			score := float64(logit)
			if label.IsPoisson() {
				score = math.Exp(score)
			} else if !label.IsNumber() {
				score = metrics.Probability(score)
			}
			x.Logit[i], x.Score[i] = append(x.Logit[i], logit), append(x.Score[i], score)
		}
	}
	for _, in := range inputs.all {
		if x.Inputs[in.Name], err = s.tensor(inputs, in); err != nil {
			return 0, err
		}
	}
	if err := writeJSON(dir, onnxCheck, x); err != nil {
		return 0, err
	}
	_, err = whole(system{}, dir, "check.py", content(checkScript))
	return n, err
}

// tensor returns the values of an input.
func (s *sample) tensor(inputs *inputSet, in OnnxInput) (checkTensor, error) {
	n := s.batch.Rows
	t := checkTensor{Type: in.Type, Shape: []int{n}}
	features := inputs.features[in.Name]
	if at := slices.Index(inputs.e.Dense(), strings.TrimSuffix(in.Name, ":value")); in.Key != "" && at >= 0 {
		for i := range n {
			t.Values = append(t.Values, s.batch.Dense[i*len(s.batch.Dense)/n+at])
		}
		return t, nil
	}
	if in.Missing == "NaN" {
		if in.Size > 0 {
			t.Shape = append(t.Shape, int(in.Size))
		}
		i := slices.IndexFunc(inputs.fits, func(f fitted) bool { return f.Name == features[0] })
		for _, x := range s.numbers[inputs.fits[i].Field] {
			if math.IsNaN(x) {
				t.Values = append(t.Values, nil)
			} else {
				t.Values = append(t.Values, x)
			}
		}
		return t, nil
	}
	var columns []encode.Jagged
	for _, name := range features {
		i := slices.IndexFunc(inputs.e.Sparse(), func(c encode.SparseColumn) bool { return c.Name == name })
		columns = append(columns, s.batch.Sparse[i])
	}
	most := 1
	if in.List {
		for i := range n {
			most = max(most, int(columns[0].Offsets[i+1]-columns[0].Offsets[i]))
		}
		t.Shape = append(t.Shape, most)
	}
	for i := range n {
		for k := range most {
			t.Values = append(t.Values, inputs.valueOf(in, columns, i, k))
		}
	}
	return t, nil
}

// valueOf returns value k of row i for an input that the features of the columns read.
func (s *inputSet) valueOf(in OnnxInput, columns []encode.Jagged, i, k int) any {
	at := int(columns[0].Offsets[i]) + k
	ends := at >= int(columns[0].Offsets[i+1])
	key := encode.KeyMissing
	if !ends {
		key = columns[0].Values[at]
	}
	features := s.features[in.Name]
	switch {
	case in.Type == "float" && (ends || columns[0].Weights == nil):
		return 1
	case in.Type == "float":
		return columns[0].Weights[at]
	case in.Type == "int64":
		return int64(key)
	case key == encode.KeyMissing && in.Type == "string":
		return ""
	case key == encode.KeyMissing:
		return noRow
	case in.Type == "int32":
		return s.tables[features[0]].row(key)
	}
	for j, name := range features { // one may know a word that another does not
		if at := int(columns[j].Offsets[i]) + k; at < int(columns[j].Offsets[i+1]) {
			if word, ok := s.word(name, columns[j].Values[at]); ok {
				return word
			}
		}
	}
	return unknownWord
}

// unknownWord is in no vocabulary.
const unknownWord = "\x00unknown"

// word returns the word of a key.
func (s *inputSet) word(feature string, key uint64) (string, bool) {
	f := s.vocabulary(feature)
	if i := slices.IndexFunc(f.Vocabulary, func(w string) bool { return encode.KeyOf([]byte(w)) == key }); i >= 0 {
		return f.Vocabulary[i], true
	}
	return "", false
}

package rows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/serve/tfs"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// names are the fields of the test's records, the label last.
var names = []string{"id", "city", "tags", "shares", "age", "price", "day", "emb", "raws", "hist", "y"}

func testSchema() schema.Schema {
	return schema.Schema{
		Label: schema.Label{Field: "y", Weight: "age"},
		Features: []schema.Feature{
			{Field: "id", Encode: "id"},
			{Field: "city", Encode: "vocabulary", MinCount: 20},
			{Field: "tags", Encode: "hash", Weights: "shares"},
			{Field: "age", Encode: "quantile", Buckets: 4},
			{Field: "price", Encode: "standardise"},
			{Field: "day", Encode: "weekday"},
			{Field: "rate", Encode: "raw"},
			{Field: "emb", Encode: "vector", Size: 3, Standardise: true},
			{Field: "raws", Encode: "vector", Size: 2},
			{Field: "hist", Encode: "hash", Separator: "|", Pairs: ":"},
			{Field: "tags", Name: "last", Encode: "vocabulary", Padding: "a", MaxLen: -1},
		},
		Crosses: []schema.Cross{{Of: []string{"city", "id"}, Buckets: 1000}},
	}
}

func testSource() schema.Source {
	return schema.Source{
		Format: "tfrecord", Missing: []string{"?"}, Where: "age < 90",
		Derive: []schema.Derived{schema.NewDerived("rate", "price / (age + 1)")},
	}
}

// randomRecord returns a record as lists by name. Some fields are missing.
func randomRecord(r *rand.Rand) []value.List {
	l := make([]value.List, len(names))
	text := func(s string) value.List { return value.List{Kind: value.Text, Texts: [][]byte{[]byte(s)}} }
	l[0] = value.List{Kind: value.Int, Ints: []int64{int64(r.Uint64())}}
	l[1] = text([]string{"Basel", "Bern", "?", "Zug \xff", fmt.Sprint(r.IntN(1000))}[r.IntN(5)])
	l[2] = value.List{Kind: value.Text}
	for range 2 {
		l[2].Texts = append(l[2].Texts, []byte{'a' + byte(r.IntN(9))})
		l[3].AddFloat32(r.Float32())
	}
	l[4] = value.List{Kind: value.Int, Ints: []int64{int64(r.IntN(80))}}
	l[5].AddFloat32(float32(r.NormFloat64()))
	l[6] = text(fmt.Sprintf("2024-05-%02d", 1+r.IntN(31)))
	for range 3 {
		l[7].AddFloat32(float32(r.NormFloat64()))
	}
	l[8] = value.List{Kind: value.Int, Ints: []int64{int64(r.IntN(9)), 7}}
	l[9] = text(fmt.Sprintf("t%d:%v||x:0.5", r.IntN(5), r.Float32()))
	l[10] = value.List{Kind: value.Int, Ints: []int64{int64(r.IntN(2))}}
	return l
}

// trained is an encoder, the records it was fitted to, and their batch as read by
// training.
type trained struct {
	encoder *encode.Encoder
	records [][]value.List
	batch   *encode.Batch
}

func train(t testing.TB, n int, drop func(r *rand.Rand, l []value.List)) trained {
	t.Helper()
	var x trained
	var file []byte
	r := rand.New(rand.NewPCG(1, 2))
	for range n {
		l := randomRecord(r)
		drop(r, l)
		x.records = append(x.records, l)
		file = tfrecord.AppendFrame(file, tfrecord.AppendExample(nil, names, l))
	}
	path := filepath.Join(t.TempDir(), "train.tfrecord")
	must(t, os.WriteFile(path, file, 0o644))
	s := testSchema().Fill()
	d, err := data.Open(testSource(), s, []string{path})
	must(t, err)
	fit := encode.NewFit(s)
	counts, err := d.Scan(context.Background(), 0, 1, fit, nil)
	must(t, err)
	must(t, d.Use(counts))
	x.encoder, err = encode.NewEncoder(fit)
	must(t, err)
	reader, err := data.NewReader(d, x.encoder, data.ReaderConfig{GlobalBatch: n})
	must(t, err)
	defer reader.Close()
	x.batch, err = reader.Next(context.Background())
	must(t, err)
	if _, err := reader.Next(context.Background()); !errors.Is(err, io.EOF) || x.batch.Rows != n {
		t.Fatalf("%d rows in the first batch of %d: %v", x.batch.Rows, n, err)
	}
	return x
}

func must(t testing.TB, err error) {
	t.Helper()
	fatal.If(t, err)
}

// same fails unless b has the keys and numbers of training.
func (x *trained) same(t *testing.T, b *encode.Batch) {
	t.Helper()
	if b.Rows != x.batch.Rows || !slices.Equal(b.Dense, x.batch.Dense) {
		t.Errorf("dense inputs differ: %d rows, want %d", b.Rows, x.batch.Rows)
	}
	for i, want := range x.batch.Sparse {
		got := b.Sparse[i]
		if !slices.Equal(got.Values, want.Values) || !slices.Equal(got.Offsets, want.Offsets) || !slices.Equal(got.Weights, want.Weights) {
			t.Errorf("%s: keys differ", x.encoder.Sparse()[i].Name)
		}
	}
}

// tensorsOf returns the records as tensors, without the label.
func (x *trained) tensorsOf(t testing.TB) []tfs.NamedTensor { return decode(t, x.tensorMessage()) }

func none(*rand.Rand, []value.List) {}

// some drops fields of a record, except those that data.where and the weight need.
func some(r *rand.Rand, l []value.List) {
	for i := range l {
		if i != 4 && i != 10 && r.IntN(4) == 0 {
			if l[i] = (value.List{}); i == 2 || i == 3 {
				l[2], l[3] = value.List{}, value.List{}
			}
		}
	}
}

func TestTensorsAreRecordsOfTraining(t *testing.T) {
	x := train(t, 300, none)
	c := coder(t, &x)
	var b encode.Batch
	for range 2 { // the second time memory is reused
		counts, err := c.Tensors(&b, x.tensorsOf(t))
		must(t, err)
		x.same(t, &b)
		if counts.Rows != 300 || counts.Ignored != 0 || slices.Max(counts.Missing) != 0 || counts.Unknown[encode.Reasons+encode.Rare] == 0 {
			t.Errorf("%+v", counts)
		}
	}
}

func TestExamplesAreRecordsOfTraining(t *testing.T) {
	x := train(t, 300, some)
	c := coder(t, &x)
	var all [][]byte
	want := make([]int64, len(c.Fields()))
	for _, l := range x.records {
		all = append(all, tfrecord.AppendExample(nil, names, l))
		for k, f := range c.Fields() {
			if l[slices.Index(names, f)].Kind == value.None {
				want[k]++
			}
		}
	}
	var b encode.Batch
	counts, err := c.Examples(&b, all, nil)
	must(t, err)
	x.same(t, &b)
	if !slices.Equal(counts.Missing, want) {
		t.Errorf("missing %v, want %v", counts.Missing, want)
	}
}

func TestColumnsAreRecordsOfTraining(t *testing.T) {
	x := train(t, 300, some)
	var columns []Column
	for k, name := range names[:10] {
		col := Column{Name: name}
		for _, l := range x.records {
			col.Rows = append(col.Rows, l[k])
		}
		columns = append(columns, col)
	}
	var b encode.Batch
	_, err := coder(t, &x).Columns(&b, columns)
	must(t, err)
	x.same(t, &b)
}

// A context has defaults for all examples; an example's own features take precedence.
func TestContext(t *testing.T) {
	x := train(t, 50, none)
	c := coder(t, &x)
	context := tfrecord.AppendExample(nil, names, x.records[0])
	own := value.List{Kind: value.Int, Ints: []int64{77}}
	whole := slices.Clone(x.records[0])
	whole[4] = own
	var got, want encode.Batch
	_, err := c.Examples(&got, [][]byte{nil, tfrecord.AppendExample(nil, names[4:5], []value.List{own})}, context)
	must(t, err)
	_, err = coder(t, &x).Examples(&want, [][]byte{context, tfrecord.AppendExample(nil, names, whole)}, nil)
	must(t, err)
	if !slices.Equal(got.Dense, want.Dense) || !reflect.DeepEqual(got.Sparse[2].Values, want.Sparse[2].Values) {
		t.Errorf("the examples do not have the features of the context")
	}
}

func TestInputs(t *testing.T) {
	x := train(t, 50, none)
	got := x.encoder.Inputs(testSource())
	want := []encode.Input{
		{Name: "id", Kind: value.Int, Many: true}, {Name: "city", Kind: value.Text, Many: true}, {Name: "tags", Kind: value.Text, Many: true},
		{Name: "shares", Kind: value.Float32, Many: true}, {Name: "age", Kind: value.Float32}, {Name: "price", Kind: value.Float32}, {Name: "day", Kind: value.Text},
		{Name: "emb", Kind: value.Float32, Many: true}, {Name: "raws", Kind: value.Float32, Many: true}, {Name: "hist", Kind: value.Text, Many: true},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if c := coder(t, &x); !slices.Equal(c.Fields(), names[:10]) {
		t.Errorf("fields %v", c.Fields())
	}
}

func TestUnknownInputsAreIgnored(t *testing.T) {
	x := train(t, 50, none)
	in := x.tensorsOf(t)
	in[0].Name, in[1].Name = []byte("y"), []byte("new feature")
	counts, err := coder(t, &x).Tensors(new(encode.Batch), in)
	must(t, err)
	if counts.Ignored != 2 || !slices.Equal(counts.New, []string{"y", "new feature"}) || counts.Missing[0] != 50 || counts.Missing[1] != 50 || counts.Missing[2] != 0 {
		t.Errorf("%+v", counts)
	}
}

func TestFaults(t *testing.T) {
	x := train(t, 50, none)
	for _, y := range []struct {
		tensors []testTensor
		want    string
	}{
		{[]testTensor{{"age", 2, int64s(1, 2)}, {"price", 3, floats(1, 2, 3)}}, `input "price": has 3 rows, input "age" has 2`},
		{[]testTensor{{"age", 2, texts("7", "x")}}, `input "age": row 1: "x" is not a number`},
		{[]testTensor{{"price", 2, floats(1, nan)}}, `input "price": row 1: "nan" is not a finite number`},
		{[]testTensor{{"id", 1, texts("abc")}}, `input "id": row 0: "abc" is not a 64-bit integer`},
		{[]testTensor{{"age", 1, int64s(1, 2)}}, `input "age": row 0: "1 2" has 2 values; a number has one`},
		{[]testTensor{{"emb", 1, floats(1, 2)}}, `input "emb": row 0: "1.0 2.0" has 2 elements; the size of the feature is 3`},
		{[]testTensor{{"tags", 1, texts("a", "b")}, {"shares", 1, floats(1)}}, `has 1 weights for 2 values`},
		{[]testTensor{{"other", 1, int64s(1)}}, `the request has none of the model's inputs; it has "other"; the model has inputs such as id`},
		{[]testTensor{{"agee", 1, int64s(1)}, {"example", 1, int64s(1)}}, `it has "agee", "example": did you mean age, examples?`},
		{nil, "the request has none of the model's inputs, such as id"},
		{[]testTensor{{"examples", 1, int64s(1)}}, `input "examples": is DT_INT64`},
		{[]testTensor{{"examples", 1, texts("\xff")}}, `row 0: the record is not a tf.Example`},
		{[]testTensor{{"examples", 1, texts("")}, {"age", 1, int64s(1)}}, `input "age": cannot be combined`},
	} {
		_, err := coder(t, &x).Tensors(new(encode.Batch), decode(t, message(y.tensors)))
		if _, is := errors.AsType[*Fault](err); !is || !strings.Contains(err.Error(), y.want) {
			t.Errorf("error %v, want %s", err, y.want)
		}
	}
	if _, err := coder(t, &x).Examples(new(encode.Batch), [][]byte{nil}, []byte{255}); err == nil || !strings.Contains(err.Error(), "context") {
		t.Error(err)
	}
}

// TestNoRows: inputs of no rows are an empty batch, which may have held rows before.
func TestNoRows(t *testing.T) {
	x := train(t, 50, none)
	c := coder(t, &x)
	for name, encode0 := range map[string]func(b *encode.Batch) (Counts, error){
		"tensors": func(b *encode.Batch) (Counts, error) {
			return c.Tensors(b, decode(t, message([]testTensor{{"price", 0, floats()}, {"age", 1, int64s(1)}})))
		},
		"examples": func(b *encode.Batch) (Counts, error) { return c.Examples(b, nil, nil) },
		"columns":  func(b *encode.Batch) (Counts, error) { return c.Columns(b, []Column{{Name: "tags"}, {Name: "price"}}) },
	} {
		var b encode.Batch
		for range 2 {
			counts, err := encode0(&b)
			must(t, err)
			if b.Rows != 0 || len(b.Dense) != 0 || len(b.Label) != 0 || counts.Rows != 0 || len(b.Sparse) != len(x.batch.Sparse) {
				t.Errorf("%s: %+v, %+v", name, b, counts)
			}
			for i, j := range b.Sparse {
				if !slices.Equal(j.Offsets, []int32{0}) || len(j.Values) != 0 || len(j.Weights) != 0 {
					t.Errorf("%s: feature %d: %+v", name, i, j)
				}
			}
			_, err = c.Tensors(&b, x.tensorsOf(t))
			must(t, err)
			x.same(t, &b)
		}
	}
}

// TestFaultyColumn: a column that cannot be an input is a fault if the model has an input of its
// name, and is ignored otherwise.
func TestFaultyColumn(t *testing.T) {
	x := train(t, 50, none)
	row := []value.List{{Kind: value.Int, Ints: []int64{7}}}
	in := []Column{{Name: "age", Rows: row}, {Name: "items", Rows: make([]value.List, 1), Fault: &Fault{Input: "items", Row: 2, Why: "is a list of lists"}}, {Name: "clicks", Rows: make([]value.List, 1), Parts: true, Fault: &Fault{}}}
	if counts, err := coder(t, &x).Columns(new(encode.Batch), in); err != nil || counts.Ignored != 1 {
		t.Errorf("%+v, %v", counts, err)
	}
	in[1].Name, in[1].Fault.Input = "price", "price"
	if _, err := coder(t, &x).Columns(new(encode.Batch), in); err == nil || err.Error() != `input "price": row 2: is a list of lists` {
		t.Error(err)
	}
}

// TestOneRowForAll: one row is used for all rows.
func TestOneRowForAll(t *testing.T) {
	x := train(t, 50, none)
	var one, all encode.Batch
	_, err := coder(t, &x).Tensors(&one, decode(t, message([]testTensor{{"city", 1, texts("Bern")}, {"age", 3, int64s(1, 2, 3)}})))
	must(t, err)
	_, err = coder(t, &x).Tensors(&all, decode(t, message([]testTensor{{"city", 3, texts("Bern", "Bern", "Bern")}, {"age", 3, int64s(1, 2, 3)}})))
	must(t, err)
	if one.Rows != 3 || !slices.Equal(one.Sparse[1].Values, all.Sparse[1].Values) || !slices.Equal(one.Dense, all.Dense) {
		t.Errorf("%v, want %v", one.Sparse[1].Values, all.Sparse[1].Values)
	}
}

// TestWeightsArePairedByPlace: rows padded with "" and NaN, and lists with nulls, give each value
// the weight in its place.
func TestWeightsArePairedByPlace(t *testing.T) {
	x := train(t, 50, none)
	c := coder(t, &x)
	var padded, nulls, alone encode.Batch
	_, err := c.Tensors(&padded, decode(t, message([]testTensor{
		{"tags", 2, texts("x0", "", "y", "a", "b", "")}, {"shares", 2, floats(nan, 2, 3, 1, 2, nan)}, {"age", 2, int64s(1, 1)}})))
	must(t, err)
	_, err = c.Columns(&nulls, []Column{
		{Name: "tags", Rows: []value.List{{Kind: value.Text, Texts: texts("x0", "y").Texts, Nulls: []int32{1}}, texts("a", "b")}},
		{Name: "shares", Rows: []value.List{{Kind: value.Float64, Reals: []float64{2, 3}, Nulls: []int32{0}}, floats(1, 2)}},
		{Name: "age", Rows: []value.List{int64s(1), int64s(1)}}})
	must(t, err)
	_, err = c.Columns(&alone, []Column{
		{Name: "tags", Rows: []value.List{texts("y"), texts("a", "b")}}, {Name: "shares", Rows: []value.List{floats(3), floats(1, 2)}},
		{Name: "age", Rows: []value.List{int64s(1), int64s(1)}}})
	must(t, err)
	want := alone.Sparse[2]
	if !slices.Equal(want.Weights, []float32{3, 1, 2}) {
		t.Errorf("weights %v", want.Weights)
	}
	for i, b := range []*encode.Batch{&padded, &nulls} {
		if got := b.Sparse[2]; !slices.Equal(got.Values, want.Values) || !slices.Equal(got.Weights, want.Weights) || !slices.Equal(got.Offsets, want.Offsets) {
			t.Errorf("request %d: %v %v, want %v %v", i, got.Values, got.Weights, want.Values, want.Weights)
		}
	}
}

func TestEncodingAllocatesNothing(t *testing.T) {
	x := train(t, 100, none)
	c, in := coder(t, &x), x.tensorsOf(t)
	var b encode.Batch
	if n := testing.AllocsPerRun(20, func() { _, _ = c.Tensors(&b, in) }); n > 0 {
		t.Errorf("%v allocations per request of 100 rows", n)
	}
}

func coder(t *testing.T, x *trained) *Coder {
	t.Helper()
	c, err := NewCoder(x.encoder, testSource(), false)
	must(t, err)
	return c
}

// TestUndated: values that should be dates and are none are missing and counted, whatever the kind of request.
func TestUndated(t *testing.T) {
	x := train(t, 100, none)
	c, err := NewCoder(x.encoder, testSource(), true)
	must(t, err)
	texts := []string{"2024-11-28", "garbage", "28.11.2024", ""}
	var all [][]byte
	for _, text := range texts {
		all = append(all, tfrecord.AppendExample(nil, []string{"day"}, []value.List{{Kind: value.Text, Texts: [][]byte{[]byte(text)}}}))
	}
	day := slices.Index(c.Fields(), "day")
	var b encode.Batch
	n, err := c.Examples(&b, all, nil)
	must(t, err)
	if n.Undated[day] != 2 {
		t.Errorf("%d undated of %q", n.Undated[day], texts)
	}
	column := Column{Name: "day"}
	for _, text := range texts {
		column.Rows = append(column.Rows, value.List{Kind: value.Text, Texts: [][]byte{[]byte(text)}})
	}
	n, err = c.Columns(&b, []Column{column})
	must(t, err)
	if n.Undated[day] != 2 {
		t.Errorf("%d undated of the column %q", n.Undated[day], texts)
	}
}

// TestListOfAFieldWithOneValue: lines of text without separator have one value in a field, so a list in a request is a
// fault, whatever the kind of request. An empty text is no value.
func TestListOfAFieldWithOneValue(t *testing.T) {
	x := train(t, 100, none)
	src := testSource()
	src.Format = "csv"
	c, err := NewCoder(x.encoder, src, true)
	must(t, err)
	var b encode.Batch
	const want = `input "city": row 1: `
	for _, many := range []bool{false, true} {
		second := texts("Bern", "")
		if many {
			second = texts("Bern", "Zug")
		}
		city, hist := []value.List{texts("Basel", ""), second}, []value.List{texts("t1:1", "t2:1"), texts("t3:1")}
		tensor := texts("Basel", "", string(second.Texts[0]), string(second.Texts[1]))
		var all [][]byte
		for i := range city {
			all = append(all, tfrecord.AppendExample(nil, []string{"city", "hist"}, []value.List{city[i], hist[i]}))
		}
		_, byTensors := c.Tensors(&b, decode(t, message([]testTensor{{"city", 2, tensor}})))
		_, byColumns := c.Columns(&b, []Column{{Name: "city", Rows: city}, {Name: "hist", Rows: hist}})
		_, byExamples := c.Examples(&b, all, nil)
		for kind, err := range map[string]error{"tensors": byTensors, "columns": byColumns, "examples": byExamples} {
			if (err != nil) != many || many && (!strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "in the training data, this field has one")) {
				t.Errorf("%s, several values %v: %v", kind, many, err)
			}
		}
	}
}

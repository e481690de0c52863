package rows

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/serve/tfs"
)

var nan = math.NaN()

func int64s(x ...int64) value.List { return value.List{Kind: value.Int, Ints: x} }

func floats(x ...float64) value.List { return value.List{Kind: value.Float32, Reals: x} }

func texts(x ...string) value.List {
	l := value.List{Kind: value.Text}
	for _, s := range x {
		l.Texts = append(l.Texts, []byte(s))
	}
	return l
}

// testTensor is an input with a number of rows.
type testTensor struct {
	name   string
	rows   int
	values value.List
}

// message returns a PredictRequest of tensors.
func message(in []testTensor) (b []byte) {
	for i := range in {
		entry := bytesField(bytesField(nil, 1, []byte(in[i].name)), 2, in[i].proto())
		b = bytesField(b, 2, entry)
	}
	return b
}

func bytesField(dst []byte, number protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), b)
}

// proto returns the TensorProto.
func (x *testTensor) proto() (b []byte) {
	l := &x.values
	kind := map[value.Kind]tfs.DataType{value.Text: tfs.String, value.Int: tfs.Int64, value.Float32: tfs.Float}[l.Kind]
	b = protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(kind))
	var shape []byte
	for _, d := range []int{x.rows, l.Len() / max(1, x.rows)} {
		shape = bytesField(shape, 2, protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(d)))
	}
	b = bytesField(b, 2, shape)
	switch l.Kind {
	case value.Text:
		for _, s := range l.Texts {
			b = bytesField(b, 8, s)
		}
	case value.Int:
		var packed []byte
		for _, v := range l.Ints {
			packed = protowire.AppendVarint(packed, uint64(v))
		}
		b = bytesField(b, 10, packed)
	default:
		var content []byte
		for _, v := range l.Reals {
			content = protowire.AppendFixed32(content, math.Float32bits(float32(v)))
		}
		b = bytesField(b, 4, content)
	}
	return b
}

func decode(t testing.TB, b []byte) []tfs.NamedTensor {
	t.Helper()
	var r tfs.PredictRequest
	must(t, r.Decode(b, tfs.Limits{Inputs: 100, Rows: 1000, Values: 1 << 20}))
	return r.Inputs
}

// tensorMessage returns a request with the records' fields, except the label.
func (x *trained) tensorMessage() []byte {
	var in []testTensor
	for k, name := range names[:10] {
		all := testTensor{name, len(x.records), value.List{}}
		for _, l := range x.records {
			all.values.Begin(l[k].Kind)
			all.values.Texts = append(all.values.Texts, l[k].Texts...)
			all.values.Ints = append(all.values.Ints, l[k].Ints...)
			all.values.Reals = append(all.values.Reals, l[k].Reals...)
		}
		in = append(in, all)
	}
	return message(in)
}

// randomTensor returns an input with this number of rows. A few have another type than the
// field, or invalid values.
func randomTensor(r *rand.Rand, name string, rows int) testTensor {
	x := testTensor{name, rows, value.List{}}
	kind := map[string]value.Kind{"id": value.Int, "age": value.Int, "price": value.Float32, "shares": value.Float32, "emb": value.Float32, "raws": value.Int}[name]
	if kind == value.None {
		kind = value.Text
	}
	if r.IntN(12) == 0 {
		kind = []value.Kind{value.Int, value.Float32, value.Text}[r.IntN(3)]
	}
	values := rows
	if name == "tags" || name == "shares" {
		values *= 2
	}
	values *= max(1, map[string]int{"emb": 3, "raws": 2}[name])
	x.values.Begin(kind)
	for range values {
		switch k := r.IntN(100); kind {
		case value.Int:
			x.values.Ints = append(x.values.Ints, int64(k))
		case value.Float32:
			x.values.Reals = append(x.values.Reals, []float64{float64(float32(k) / 4), math.NaN()}[k/97])
		default:
			s := []string{"?", "Bern", fmt.Sprintf("2024-05-%02d", 1+k%31), fmt.Sprint(k)}[r.IntN(4)]
			if name == "tags" {
				s = fmt.Sprint(k)
			} else if name == "hist" {
				s = fmt.Sprintf("t%d:%d", k, k)
			}
			x.values.Texts = append(x.values.Texts, []byte(s))
		}
	}
	return x
}

// TestColumnsAreRows: tensors, some with one row for all, are encoded like the same values
// in examples, which are encoded row by row, and counted like them.
func TestColumnsAreRows(t *testing.T) {
	x := train(t, 300, none)
	for _, forgive := range []bool{false, true} {
		columnsAreRows(t, &x, forgive)
	}
}

func columnsAreRows(t *testing.T, x *trained, forgive bool) {
	t.Helper()
	byColumn, err := NewCoder(x.encoder, testSource(), forgive)
	must(t, err)
	byRow, err := NewCoder(x.encoder, testSource(), forgive)
	must(t, err)
	var got, want encode.Batch
	encoded, rejected := 0, 0
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 3))
		rows := 1 + r.IntN(20)
		in := []testTensor{randomTensor(r, "age", rows)}
		for _, name := range names[:10] {
			switch k := r.IntN(4); {
			case name == "age" || k == 0:
			case k == 1:
				in = append(in, randomTensor(r, name, 1))
			default:
				in = append(in, randomTensor(r, name, rows))
			}
		}
		var all [][]byte
		for i := range rows {
			var present []string
			var lists []value.List
			for k := range in {
				var l value.List
				tensor := decode(t, message(in[k:k+1]))[0].Tensor
				tensor.Row(i, &l)
				present, lists = append(present, in[k].name), append(lists, l)
			}
			all = append(all, tfrecord.AppendExample(nil, present, lists))
		}
		a, errA := byColumn.Tensors(&got, decode(t, message(in)))
		b, errB := byRow.Examples(&want, all, nil)
		if (errA == nil) != (errB == nil) {
			t.Fatalf("seed %d: by column %v, by row %v", seed, errA, errB)
		}
		if errA != nil {
			rejected++
			continue
		}
		encoded++
		if !sameBatch(&got, &want) || !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d, forgive %v: by column %+v %+v, by row %+v %+v", seed, forgive, a, got, b, want)
		}
	}
	if encoded < 100 || rejected < 50 {
		t.Errorf("%d requests encoded, %d rejected", encoded, rejected)
	}
}

func sameBatch(a, b *encode.Batch) bool {
	return a.Rows == b.Rows && slices.Equal(a.Dense, b.Dense) && slices.Equal(a.Label, b.Label) &&
		slices.EqualFunc(a.Sparse, b.Sparse, func(x, y encode.Jagged) bool {
			return slices.Equal(x.Values, y.Values) && slices.Equal(x.Offsets, y.Offsets) && slices.Equal(x.Weights, y.Weights)
		})
}

// TestSharedValuesAreBounded: a list that all rows share is not repeated without limit.
func TestSharedValuesAreBounded(t *testing.T) {
	x := train(t, 50, none)
	long := make([]string, 1<<15)
	for i := range long {
		long[i] = "a"
	}
	in := decode(t, message([]testTensor{{"tags", 1, texts(long...)}, {"shares", 1, floats(make([]float64, len(long))...)}, {"age", 1000, int64s(make([]int64, 1000)...)}}))
	_, err := coder(t, &x).Tensors(new(encode.Batch), in)
	if err == nil || !strings.Contains(err.Error(), "send fewer rows or values") {
		t.Error(err)
	}
}

package rows

import (
	"math"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

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

// testTensor is an input of so many rows.
type testTensor struct {
	name   string
	rows   int
	values value.List
}

// message is a PredictRequest of tensors.
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

// proto is the TensorProto.
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

// tensorMessage is a request with the records' fields, but for the label.
func (x *trained) tensorMessage() []byte {
	var in []testTensor
	for k, name := range names[:7] {
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

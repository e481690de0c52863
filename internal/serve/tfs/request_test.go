package tfs

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

var roomy = Limits{Inputs: 64, Rows: 1 << 16, Values: 1 << 20}

// shape is a TensorShapeProto.
func shape(dims ...int64) obj {
	l := list{}
	for _, d := range dims {
		l = append(l, obj{"size": d})
	}
	return obj{"dim": l}
}

// input is a PredictRequest of one tensor.
func input(name string, tensor obj) obj {
	return obj{"inputs": list{obj{"key": name, "value": tensor}}}
}

// rowsOf writes the rows of a tensor as text.
func rowsOf(t *Tensor, rows int) string {
	var all []string
	var l value.List
	for i := range rows {
		t.Row(i, &l)
		var row []string
		for k := range l.Len() {
			row = append(row, string(l.Append(nil, k)))
		}
		all = append(all, strings.Join(row, ","))
	}
	return strings.Join(all, " ")
}

func TestTensors(t *testing.T) {
	s := loadSchema(t)
	for _, x := range []struct {
		name   string
		tensor obj
		rows   int
		want   string
	}{
		{"float", obj{"dtype": int32(Float), "tensor_shape": shape(2), "float_val": list{float32(1), float32(.5)}}, 2, "1.0 0.5"},
		{"float in content", obj{"dtype": int32(Float), "tensor_shape": shape(2), "tensor_content": []byte{0, 0, 128, 63, 0, 0, 0, 63}}, 2, "1.0 0.5"},
		{"double", obj{"dtype": int32(Double), "tensor_shape": shape(1), "double_val": list{.1}}, 1, "0.1"},
		{"int32", obj{"dtype": int32(Int32), "tensor_shape": shape(2), "int_val": list{int32(-1), int32(7)}}, 2, "-1 7"},
		{"int16 in content", obj{"dtype": int32(Int16), "tensor_shape": shape(2), "tensor_content": []byte{255, 255, 7, 0}}, 2, "-1 7"},
		{"uint8", obj{"dtype": int32(Uint8), "tensor_shape": shape(1), "int_val": list{int32(200)}}, 1, "200"},
		{"int64", obj{"dtype": int32(Int64), "tensor_shape": shape(2), "int64_val": list{int64(math.MinInt64), int64(3)}}, 2, "-9223372036854775808 3"},
		{"uint32", obj{"dtype": int32(Uint32), "tensor_shape": shape(1), "uint32_val": list{uint32(math.MaxUint32)}}, 1, "4294967295"},
		{"uint64", obj{"dtype": int32(Uint64), "tensor_shape": shape(2), "uint64_val": list{uint64(5), uint64(math.MaxUint64)}}, 2, "5 18446744073709551615"},
		{"bool", obj{"dtype": int32(Bool), "tensor_shape": shape(2), "bool_val": list{true, false}}, 2, "true false"},
		{"half", obj{"dtype": int32(Half), "tensor_shape": shape(4), "half_val": list{int32(0x3c00), int32(0xc000), int32(0x0001), int32(0x7bff)}}, 4, "1.0 -2.0 5.9604645e-08 65504.0"},
		{"bfloat16", obj{"dtype": int32(BFloat16), "tensor_shape": shape(1), "half_val": list{int32(0x3fc0)}}, 1, "1.5"},
		{"string", obj{"dtype": int32(String), "tensor_shape": shape(2), "string_val": list{[]byte("a"), []byte{255}}}, 2, "a \xff"},
		{"string in content", obj{"dtype": int32(String), "tensor_shape": shape(3), "tensor_content": []byte("\x01\x00\x02abc")}, 3, "a  bc"},
		{"lists", obj{"dtype": int32(Int64), "tensor_shape": shape(2, 2), "int64_val": list{int64(1), int64(2), int64(3), int64(4)}}, 2, "1,2 3,4"},
		{"one row for all", obj{"dtype": int32(Int64), "tensor_shape": shape(1, 2), "int64_val": list{int64(1), int64(2)}}, 3, "1,2 1,2 1,2"},
		{"scalar", obj{"dtype": int32(String), "string_val": list{[]byte("x")}}, 2, "x x"},
		{"last value repeats", obj{"dtype": int32(Int64), "tensor_shape": shape(3), "int64_val": list{int64(1), int64(2)}}, 3, "1 2 2"},
		{"no value is zero", obj{"dtype": int32(Float), "tensor_shape": shape(2)}, 2, "0.0 0.0"},
		{"no value is empty", obj{"dtype": int32(String), "tensor_shape": shape(2)}, 2, " "},
		{"no element", obj{"dtype": int32(Float), "tensor_shape": shape(0)}, 0, ""},
		{"lists of none", obj{"dtype": int32(String), "tensor_shape": shape(2, 0)}, 2, " "},
	} {
		var r PredictRequest
		if err := r.Decode(s.encode(t, "tensorflow.serving.PredictRequest", input("x", x.tensor)), roomy); err != nil {
			t.Errorf("%s: %v", x.name, err)
		} else if got := rowsOf(&r.Inputs[0].Tensor, x.rows); got != x.want {
			t.Errorf("%s: rows %q, want %q", x.name, got, x.want)
		}
	}
}

func TestFaultyTensors(t *testing.T) {
	s := loadSchema(t)
	for want, tensor := range map[string]obj{
		"type DT_0 is not supported":             {"tensor_shape": shape(1)},
		"type DT_20 is not supported":            {"dtype": int32(20)},
		"a dimension is not between":             {"dtype": int32(Float), "tensor_shape": shape(-1)},
		"more than 2^31-1 elements":              {"dtype": int32(Float), "tensor_shape": shape(1, 1<<30, 4)},
		"at most 65536 are allowed":              {"dtype": int32(Float), "tensor_shape": shape(1 << 17)},
		"too many values":                        {"dtype": int32(Float), "tensor_shape": shape(1<<11, 1<<10)},
		"unknown rank":                           {"dtype": int32(Float), "tensor_shape": obj{"unknown_rank": true}},
		"tensor_content has 3 bytes":             {"dtype": int32(Float), "tensor_shape": shape(1), "tensor_content": []byte{1, 2, 3}},
		"3 values, shape [2] has 2":              {"dtype": int32(Int64), "tensor_shape": shape(2), "int64_val": list{int64(1), int64(2), int64(3)}},
		"tensor_content ends within":             {"dtype": int32(String), "tensor_shape": shape(1), "tensor_content": []byte{9, 'a'}},
		"tensor_content has fewer":               {"dtype": int32(String), "tensor_shape": shape(3), "tensor_content": []byte{1}},
		"1 bytes after the last string":          {"dtype": int32(String), "tensor_shape": shape(1), "tensor_content": []byte("\x01ab")},
		"more than 8 dimensions":                 {"dtype": int32(Float), "tensor_shape": shape(1, 1, 1, 1, 1, 1, 1, 1, 1)},
		`inputs["x"]: 0 values, shape [1] has`:   {"dtype": int32(Int64), "tensor_shape": shape(1), "float_val": list{float32(3)}},
		"values of DT_STRING are in field 8":     {"dtype": int32(String), "tensor_shape": shape(1), "float_val": list{float32(3)}},
		"of another type in its field 8":         {"dtype": int32(Int64), "tensor_shape": shape(2), "int64_val": list{int64(1)}, "string_val": list{[]byte("a")}},
		`inputs["x"]: type DT_8 is not supporte`: {"dtype": int32(8)},
	} {
		var r PredictRequest
		err := r.Decode(s.encode(t, "tensorflow.serving.PredictRequest", input("x", tensor)), roomy)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestRequests(t *testing.T) {
	s := loadSchema(t)
	spec := obj{"name": "ctr", "version": obj{"value": int64(7)}, "version_label": "stable", "signature_name": "sig"}
	want := ModelSpec{Name: "ctr", Version: 7, HasVersion: true, Label: "stable", Signature: "sig"}

	var p PredictRequest
	check(t, p.Decode(s.encode(t, "tensorflow.serving.PredictRequest", obj{"model_spec": spec, "output_filter": list{"a", "b"}}), roomy))
	if p.Spec != want || !reflect.DeepEqual(p.Outputs, []string{"a", "b"}) {
		t.Errorf("PredictRequest: %+v", p)
	}
	examples := obj{"example_list_with_context": obj{
		"examples": list{obj{"features": obj{}}, obj{}}, "context": obj{"features": obj{"feature": list{obj{"key": "k"}}}},
	}}
	for _, name := range []string{"ClassificationRequest", "RegressionRequest"} {
		var e ExamplesRequest
		check(t, e.Decode(s.encode(t, "tensorflow.serving."+name, obj{"model_spec": spec, "input": examples}), roomy))
		context := s.encode(t, "tensorflow.Example", obj{"features": obj{"feature": list{obj{"key": "k"}}}})
		if e.Spec != want || len(e.Input.Examples) != 2 || !bytes.Equal(e.Input.Context, context) {
			t.Errorf("%s: %+v", name, e)
		}
	}
	var m MultiInferenceRequest
	check(t, m.Decode(s.encode(t, "tensorflow.serving.MultiInferenceRequest", obj{
		"tasks": list{obj{"model_spec": spec, "method_name": "m"}}, "input": obj{"example_list": obj{"examples": list{obj{}}}},
	}), roomy))
	if len(m.Tasks) != 1 || m.Tasks[0] != (Task{want, "m"}) || len(m.Input.Examples) != 1 || m.Input.Context != nil {
		t.Errorf("MultiInferenceRequest: %+v", m)
	}
	var g MetadataRequest
	check(t, g.Decode(s.encode(t, "tensorflow.serving.GetModelMetadataRequest", obj{"model_spec": spec, "metadata_field": list{"signature_def"}}), roomy))
	if g.Spec != want || !reflect.DeepEqual(g.Fields, []string{"signature_def"}) {
		t.Errorf("GetModelMetadataRequest: %+v", g)
	}
	check(t, g.Decode(s.encode(t, "tensorflow.serving.GetModelStatusRequest", obj{"model_spec": spec}), roomy))
	if g.Spec != want || g.Fields != nil {
		t.Errorf("GetModelStatusRequest: %+v", g)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func TestLimits(t *testing.T) {
	s := loadSchema(t)
	one := obj{"dtype": int32(Float)}
	b := s.encode(t, "tensorflow.serving.PredictRequest", obj{"inputs": list{obj{"key": "a", "value": one}, obj{"key": "b", "value": one}}})
	var r PredictRequest
	if err := r.Decode(b, Limits{Inputs: 1, Rows: 1, Values: 2}); err == nil || !strings.Contains(err.Error(), "more than 1 inputs") {
		t.Errorf("inputs: %v", err)
	}
	if err := r.Decode(b, Limits{Inputs: 2, Rows: 1, Values: 1}); err == nil || !strings.Contains(err.Error(), `inputs["b"]`) {
		t.Errorf("values: %v", err)
	}
	b = s.encode(t, "tensorflow.serving.RegressionRequest", obj{"input": obj{"example_list": obj{"examples": list{obj{}, obj{}}}}})
	var e ExamplesRequest
	if err := e.Decode(b, Limits{Inputs: 1, Rows: 1}); err == nil || !strings.Contains(err.Error(), "more than 1 examples") {
		t.Errorf("examples: %v", err)
	}
}

// The error for a field of another wire type names it.
func TestWireTypes(t *testing.T) {
	b := protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 1)
	var r PredictRequest
	if err := r.Decode(b, roomy); err == nil || !strings.Contains(err.Error(), "field 2 (inputs)") {
		t.Error(err)
	}
}

// Decoding into a request again has the result of a new request.
func TestRequestsAreUsedAgain(t *testing.T) {
	s := loadSchema(t)
	var again PredictRequest
	for i := range 20 {
		tensor := obj{"dtype": int32(Int64), "tensor_shape": shape(2), "int64_val": list{int64(i), int64(2)}}
		if i%3 == 1 {
			tensor = obj{"dtype": int32(String), "tensor_shape": shape(2), "string_val": list{[]byte(fmt.Sprint(i)), []byte("b")}}
		}
		b := s.encode(t, "tensorflow.serving.PredictRequest", input("x", tensor))
		var fresh PredictRequest
		check(t, again.Decode(b, roomy))
		check(t, fresh.Decode(b, roomy))
		if got, want := rowsOf(&again.Inputs[0].Tensor, 2), rowsOf(&fresh.Inputs[0].Tensor, 2); got != want {
			t.Errorf("request %d: %s, want %s", i, got, want)
		}
	}
}

func FuzzRequests(f *testing.F) {
	for _, b := range recordedFiles(f) {
		f.Add(b)
	}
	s := loadSchema(f)
	f.Add(s.encode(f, "tensorflow.serving.PredictRequest", input("x", obj{"dtype": int32(String), "tensor_shape": shape(2), "tensor_content": []byte("\x01\x00a")})))
	limits := Limits{Inputs: 16, Rows: 64, Values: 256}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p PredictRequest
		if p.Decode(b, limits) == nil {
			var l value.List
			for i := range p.Inputs {
				x := &p.Inputs[i].Tensor
				for r := range x.Rows() {
					if x.Row(r, &l); l.Len()*x.Rows() != x.Elements() {
						t.Fatalf("row %d of shape %v has %d values", r, x.Dims, l.Len())
					}
				}
			}
		}
		var e ExamplesRequest
		_ = e.Decode(b, limits)
		var m MultiInferenceRequest
		_ = m.Decode(b, limits)
		var g MetadataRequest
		_ = g.Decode(b, limits)
	})
}

// TestOrderOfInputsTakesNoMemory: once requests have grown, another order of inputs needs
// no more memory.
func TestOrderOfInputsTakesNoMemory(t *testing.T) {
	const inputs, values = 400, 1000
	inOrder := func(wide int) (msg []byte) {
		for i := range inputs {
			rows := 1
			if i == wide {
				rows = values
			}
			tensor := appendVarint(nil, 1, uint64(Int64))
			tensor = appendMessage(tensor, 2, func(dst []byte) []byte { return appendDim(dst, int64(rows)) })
			tensor = appendString(tensor, 4, make([]byte, 8*rows))
			msg = appendString(msg, 2, appendString(appendString(nil, 1, "f"), 2, tensor))
		}
		return msg
	}
	var r PredictRequest
	decode := func(msg []byte) {
		if err := r.Decode(msg, Limits{Inputs: inputs, Rows: values, Values: 1 << 20}); err != nil || len(r.Inputs) != inputs {
			t.Fatal(len(r.Inputs), err)
		}
	}
	for range 5 {
		decode(inOrder(0))
	}
	var all [][]byte
	for wide := range inputs {
		all = append(all, inOrder(wide))
	}
	next := 0
	if n := testing.AllocsPerRun(inputs-1, func() { decode(all[next]); next++ }); n > 0 {
		t.Errorf("%v allocations for each other order", n)
	}
}

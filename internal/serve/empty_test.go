package serve

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wdlrun/wdlrun/internal/serve/tfs"
)

// emptyTensor returns a TensorProto without elements.
func emptyTensor(of tfs.DataType, dims ...uint64) []byte {
	b := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(of))
	var shape []byte
	for _, d := range dims {
		shape = sub(shape, 2, protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), d))
	}
	return sub(b, 2, shape)
}

// emptyRequests are PredictRequests of no rows, by what they contain.
func emptyRequests() map[string][]byte {
	all := map[string][]byte{}
	request := func(inputs ...any) []byte { // name, tensor, …
		b := sub(nil, 1, sub(nil, 1, "ctr"))
		for i := 0; i < len(inputs); i += 2 {
			b = sub(b, 2, sub(sub(nil, 1, inputs[i].(string)), 2, inputs[i+1].([]byte)))
		}
		return b
	}
	for of := tfs.Float; of <= tfs.Uint64; of++ {
		if of.String()[3] >= '0' && of.String()[3] <= '9' {
			continue // not a type of an input
		}
		for _, dims := range [][]uint64{{0}, {0, 1}, {0, 3}, {0, 0}} {
			one := emptyTensor(of, dims...)
			all[fmt.Sprintf("%s %v", of, dims)] = request("age", one)
			all[fmt.Sprintf("every input, %s %v", of, dims)] = request("age", one, "education", one, "hours-per-week", one)
			content := sub(emptyTensor(of, dims...), 4, "")
			all[fmt.Sprintf("content, %s %v", of, dims)] = request("hours-per-week", content)
		}
	}
	one := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(tfs.Int64))
	all["a shared input"] = request("age", emptyTensor(tfs.Float, 0), "hours-per-week", one)
	all["an empty list that rows share"] = request("age", emptyTensor(tfs.Float, 0), "education", emptyTensor(tfs.String, 1, 0))
	all["examples"] = request("examples", emptyTensor(tfs.String, 0))
	return all
}

// TestEmptyBatches: a request of no rows is answered with no scores by every method, and the next
// request is answered as before.
func TestEmptyBatches(t *testing.T) {
	r := start(t, Options{Threads: 1}, nil, 1)
	records := strings.NewReplacer(",income\n", ",income,bought\n", ",0\n", ",0,7\n", ",1\n", ",1,8\n").Replace(people)
	two := newFakeModelOf(t, peopleConfig+"labels: [{field: bought, kind: number}]\n", records)
	for i, model := range []*fakeModel{r.model, two} {
		n := int64(2 + i)
		r.model = model
		r.write(n, "")
		r.waitFor("available", n)
		spec := &tfs.ModelSpec{Name: "ctr", Version: n, HasVersion: true, Signature: defaultSignature}
		var outputs []tfs.Output
		for _, o := range outputsOf(model.config) {
			outputs = append(outputs, tfs.Output{Name: o.score}, tfs.Output{Name: o.logit})
		}
		before, err := r.call(context.Background(), "PredictionService/Predict", predicting())
		must(t, err)
		for name, request := range emptyRequests() {
			got, err := r.call(context.Background(), "PredictionService/Predict", request)
			if wanted := tfs.AppendPredictResponse(nil, spec, outputs); err != nil || !bytes.Equal(got, wanted) {
				t.Fatalf("version %d, %s: % x, %v\nwant % x", n, name, got, err, wanted)
			}
		}
		after, err := r.call(context.Background(), "PredictionService/Predict", predicting())
		if err != nil || !bytes.Equal(before, after) {
			t.Errorf("version %d: the next request is answered % x, %v\nwant % x", n, after, err, before)
		}
	}
	r.emptyExamples()
	r.emptyREST()
}

// emptyExamples sends empty lists of examples, with and without a context.
func (r *running) emptyExamples() {
	spec, context0 := &tfs.ModelSpec{Name: "ctr", Version: 1, HasVersion: true}, sub(nil, 2, sub(nil, 2, ""))
	model := sub(sub(nil, 1, "ctr"), 2, protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1))
	for name, input := range map[string][]byte{"a list": sub(nil, 1, ""), "a list with context": context0} {
		with := *spec
		with.Signature = defaultSignature
		task := func(method string) []byte { return sub(sub(nil, 1, model), 2, method) }
		both := []tfs.Inference{{Spec: with, Classes: []tfs.Class{{Label: "0"}, {Label: "1"}}}, {Spec: with}}
		both[0].Spec.Signature, both[1].Spec.Signature = "", ""
		for method, x := range map[string]struct{ request, want []byte }{
			"Classify":       {sub(sub(nil, 1, model), 2, input), tfs.AppendClassificationResponse(nil, &with, []tfs.Class{{Label: "0"}})},
			"Regress":        {sub(sub(nil, 1, model), 2, input), tfs.AppendRegressionResponse(nil, &with, nil)},
			"MultiInference": {sub(sub(sub(nil, 1, task(tfs.MethodClassify)), 1, task(tfs.MethodRegress)), 2, input), tfs.AppendMultiInferenceResponse(nil, both)},
		} {
			got, err := r.call(context.Background(), "PredictionService/"+method, x.request)
			if err != nil || !bytes.Equal(got, x.want) {
				r.t.Errorf("%s of %s: % x, %v\nwant % x", method, name, got, err, x.want)
			}
		}
	}
}

// emptyREST sends empty lists over REST.
func (r *running) emptyREST() {
	for _, x := range [][3]string{
		{"predict", `{"instances": []}`, `{"predictions": []}`},
		{"predict", `{"inputs": {"age": []}}`, `{"outputs": {"score": [], "logit": []}}`},
		{"predict", `{"inputs": {"age": [], "education": "x", "hours-per-week": []}}`, `{"outputs": {"score": [], "logit": []}}`},
		{"predict", `{"inputs": {"examples": []}}`, `{"outputs": {"score": [], "logit": []}}`},
		{"classify", `{"examples": []}`, `{"results": []}`},
		{"regress", `{"examples": [], "context": {"age": 7}}`, `{"results": []}`},
	} {
		status, text := r.http("POST", "/v1/models/ctr/versions/1:"+x[0], x[1])
		if status != 200 || text != x[2]+"\n" {
			r.t.Errorf("%s %s: %d %s, want %s", x[0], x[1], status, text, x[2])
		}
	}
}

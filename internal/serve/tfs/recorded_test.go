package tfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

func recordedFiles(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/*.bin")
	if err != nil || len(names) != 4 {
		t.Fatalf("%d recorded requests, %v", len(names), err)
	}
	all := map[string][]byte{}
	for _, n := range names {
		if all[filepath.Base(n)], err = os.ReadFile(n); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestRecordedTensors(t *testing.T) {
	var r PredictRequest
	check(t, r.Decode(recordedFiles(t)["predict_typed_and_content.bin"], roomy))
	if (r.Spec != ModelSpec{Name: "ctr", Signature: "serving_default"}) {
		t.Errorf("spec %+v", r.Spec)
	}
	got := map[string]string{}
	for i := range r.Inputs {
		got[string(r.Inputs[i].Name)] = rowsOf(&r.Inputs[i].Tensor, 3)
	}
	for name, want := range map[string]string{"age": "17 38 90", "education": "Masters HS-grad \xff", "hours-per-week": "40.0 0.5 99.0"} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}

func TestRecordedExamples(t *testing.T) {
	var r PredictRequest
	check(t, r.Decode(recordedFiles(t)["predict_examples_label.bin"], roomy))
	if r.Spec.Name != "ctr" || r.Spec.Label != "stable" || r.Spec.HasVersion || len(r.Outputs) != 1 || r.Outputs[0] != "score" {
		t.Errorf("%+v", r)
	}
	examples(t, r.Inputs[0].Texts(), 17, 18)
	for _, name := range []string{"classify_context.bin", "regress_context.bin"} {
		var e ExamplesRequest
		check(t, e.Decode(recordedFiles(t)[name], roomy))
		if e.Spec.Name != "ctr" || e.Spec.Version != 640 || e.Input.Context == nil {
			t.Errorf("%s: %+v", name, e)
		}
		examples(t, e.Input.Examples, 20, 21, 22)
	}
}

// examples checks the ages of serialised tf.Examples.
func examples(t *testing.T, all [][]byte, ages ...int64) {
	t.Helper()
	if len(all) != len(ages) {
		t.Fatalf("%d examples, want %d", len(all), len(ages))
	}
	d, lists := tfrecord.NewDecoder([]string{"age"}), make([]value.List, 1)
	for i, b := range all {
		check(t, d.Decode(b, lists))
		if lists[0].Kind != value.Int || lists[0].Ints[0] != ages[i] {
			t.Errorf("example %d: %+v", i, lists[0])
		}
	}
}

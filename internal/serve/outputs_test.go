package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/wdlrun/wdlrun/internal/serve/versions"
)

// TestOutputsAreRenamed: Predict answers with the configured outputs, their names, shapes and order, and
// its signature describes them. A single output has no name in JSON, as in TensorFlow Serving.
func TestOutputsAreRenamed(t *testing.T) {
	row := `{"inputs": {"age": [17], "education": ["Masters"], "hours-per-week": [40]}}`
	instance := `{"instances": [{"age": 17, "education": "Masters", "hours-per-week": 40}]}`
	for _, x := range []struct {
		outputs           []Output
		columns, instance string // with the score and the logit
	}{
		{[]Output{{"probabilities", "score", true}}, `{"outputs": [[%[1]v]]}`, `{"predictions": [[%[1]v]]}`},
		{[]Output{{"p", "score", false}}, `{"outputs": [%[1]v]}`, `{"predictions": [%[1]v]}`},
		{[]Output{{"z", "logit", true}, {"p", "score", false}}, `{"outputs": {"z": [[%[2]v]], "p": [%[1]v]}}`, `{"predictions": [{"z": [%[2]v], "p": %[1]v}]}`},
	} {
		r := start(t, Options{Outputs: x.outputs}, nil, 1)
		r.model.bias = .001
		z := r.model.logit(t, "17,Masters,40")
		r.model.bias = 0
		for body, form := range map[string]string{row: x.columns, instance: x.instance} {
			want := strings.ReplaceAll(fmt.Sprintf(form+"%.0[1]v%.0[2]v", probabilities(z)[0], z[0]), "\n", "")
			want = strings.SplitAfterN(want, "]}", 2)[0]
			if _, text := r.http("POST", "/v1/models/ctr:predict", body); !strings.HasPrefix(text, want) {
				t.Errorf("%s, want %s", text, want)
			}
		}
		_, text := r.http("GET", "/v1/models/ctr/metadata", "")
		if !strings.Contains(text, `"`+x.outputs[0].Name+`": {`) || strings.Contains(text, `"score": {`) {
			t.Error(text)
		}
		out, err := r.call(context.Background(), "PredictionService/Predict", sub(predicting(), 3, "score"))
		if code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), `there are "`+x.outputs[0].Name) {
			t.Errorf("%x %v", out, err)
		}
	}
	s := New(Options{Outputs: []Output{{"p", "scores", false}}, Open: func(string, Model, func()) (Model, error) {
		m := newFakeModel(t, peopleConfig)
		m.closed = make(chan struct{})
		return m, nil
	}})
	defer func() { must(t, s.Shutdown(context.Background())) }()
	r := running{t: t, base: t.TempDir()}
	r.write(1, "")
	err := s.Set(context.Background(), []versions.Config{{Name: "ctr", Base: r.base}})
	if err == nil || !strings.Contains(errors.Join(err).Error(), "-output p=scores: the model has no output scores; it has score and logit") {
		t.Error(err)
	}
}

package serve

import (
	"fmt"
	"strings"
	"testing"
)

// TestNaNOfAString: NaN in a field of strings is a missing value, alone and in a list, as it is for numbers. Tables of
// pandas have it where other rows have a string.
func TestNaNOfAString(t *testing.T) {
	r := start(t, Options{}, nil, 1)
	r.model.bias = .001
	want := fmt.Sprintf(`"logit": %v}`, r.model.logit(t, "17,,40")[0])
	r.model.bias = 0
	for _, body := range []string{
		`{"instances": [{"age": 17, "education": NaN, "hours-per-week": 40}]}`,
		`{"instances": [{"age": 17, "education": [NaN], "hours-per-week": 40}]}`,
		`{"inputs": {"age": [17], "education": [NaN], "hours-per-week": [40]}}`,
	} {
		if status, text := r.http("POST", "/v1/models/ctr:predict", body); status != 200 || !strings.Contains(strings.ReplaceAll(text, "[", ""), strings.TrimSuffix(want, "}")) {
			t.Errorf("%s: %d %s, want %s", body, status, text, want)
		}
	}
	if _, text := r.http("GET", "/metrics", ""); !strings.Contains(text, `wdlrun_serve_invalid_values_total{input="education",model="ctr"} 3`) {
		t.Error(text)
	}
}

// TestNumbersThatAreNotFinite: a value that is NaN, infinite or beyond float32 is missing and counted,
// and the other rows have their scores, in every kind of request. With RejectInvalid, it is a fault
// that names row and input. A text that is no number is always a fault.
func TestNumbersThatAreNotFinite(t *testing.T) {
	for _, reject := range []bool{false, true} {
		r := start(t, Options{RejectInvalid: reject}, nil, 1)
		r.model.bias = .001
		want := r.model.logit(t, "17,Masters,40", ",Masters,40", "38,HS-grad,")
		r.model.bias = 0
		invalid := 0
		for _, x := range []string{"NaN", "Infinity", "-Infinity", "1e39", `"inf"`} {
			rows := fmt.Sprintf(`[{"age": 17, "education": "Masters", "hours-per-week": 40}, {"age": %s, "education": "Masters", "hours-per-week": 40}, {"age": 38, "education": "HS-grad", "hours-per-week": %[1]s}]`, x)
			columns := fmt.Sprintf(`{"age": [17, %s, 38], "education": ["Masters", "Masters", "HS-grad"], "hours-per-week": [40, 40, %[1]s]}`, x)
			for body, answer := range map[string]string{
				`{"instances": ` + rows + `}`: fmt.Sprintf(`"logit": %v}, {`, want[0]),
				`{"inputs": ` + columns + `}`: fmt.Sprintf(`"logit": [%v, %v, %v]`, want[0], want[1], want[2]),
			} {
				status, text := r.http("POST", "/v1/models/ctr:predict", body)
				switch {
				case reject && (status != 400 || !strings.Contains(text, "input")):
					t.Errorf("%s: %d %s", body, status, text)
				case !reject && (status != 200 || !strings.Contains(text, answer) || !strings.Contains(text, fmt.Sprint(want[1])) || !strings.Contains(text, fmt.Sprint(want[2]))):
					t.Errorf("%s: %d %s, want logits %v", body, status, text, want)
				case !reject:
					invalid++
				}
			}
			status, text := r.http("POST", "/v1/models/ctr:regress", `{"examples": `+rows+`}`)
			if p := probabilities(want); reject != (status == 400) || !reject && text != fmt.Sprintf("{\"results\": [%v, %v, %v]}\n", p[0], p[1], p[2]) {
				t.Errorf("%d %s", status, text)
			} else if !reject {
				invalid++
			}
		}
		_, text := r.http("GET", "/metrics", "")
		for _, input := range []string{"age", "hours-per-week"} {
			if want := fmt.Sprintf("wdlrun_serve_invalid_values_total{input=%q,model=\"ctr\"} %d\n", input, invalid); !strings.Contains(text, want) {
				t.Errorf("/metrics has no %s", want)
			}
		}
		if status, text := r.http("POST", "/v1/models/ctr:predict", `{"instances": [{"age": NaN}, {"age": "x"}]}`); status != 400 || !reject && !strings.Contains(text, `row 1: \"x\" is not a number`) {
			t.Errorf("%d %s", status, text)
		}
	}
}

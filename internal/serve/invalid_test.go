package serve

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
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

// TestValuesThatAreNoDates: a value that should be a date and is none is missing and counted. With
// RejectInvalid it is a fault that names input and row, by REST and gRPC, by row and by column, of features
// with keys and with numbers.
func TestValuesThatAreNoDates(t *testing.T) {
	for _, feature := range []string{"encode: hour", "encode: age"} {
		config := strings.Replace(peopleConfig, "{field: education, encode: vocabulary}", "{field: education, "+feature+"}\n  - {field: age, name: ages, encode: quantile, buckets: 2}", 1)
		for _, reject := range []bool{false, true} {
			r := start(t, Options{RejectInvalid: reject}, nil, 1)
			r.model = newFakeModelOf(t, config, "age,education,hours-per-week,income\n17,2026-11-03T20:00:00Z,40,0\n38,2026-11-05T21:00:00Z,1,1\n")
			r.write(2, "")
			r.until("the model is there", func() bool {
				got, _ := r.http("POST", "/v1/models/ctr/versions/2:predict", `{"instances": [{"age": 1}]}`)
				return got == 200
			})
			for _, x := range []string{`"2026-13-45T20:00:00Z"`, `"yesterday"`, "1796062413", `"20:00"`} {
				for _, body := range []string{
					`"instances": [{"education": "2026-11-03T20:00:00Z"}, {"education": ` + x + `}]`,
					`"inputs": {"education": ["2026-11-03T20:00:00Z", ` + x + `]}`,
				} {
					got, text := r.http("POST", "/v1/models/ctr:predict", "{"+body+"}")
					if want := fmt.Sprintf(`input \"education\": row 1: \"%s\" is not a date in the format iso`, strings.Trim(x, `"`)); reject && (got != 400 || !strings.Contains(text, want)) || !reject && got != 200 {
						t.Errorf("%s, reject %t: %d %s", body, reject, got, text)
					}
				}
				got, text := r.http("POST", "/v1/models/ctr:regress", `{"examples": [{"education": "2026-11-03T20:00:00Z"}, {"education": `+x+`}]}`)
				if reject && (got != 400 || !strings.Contains(text, `input \"education\": row 1: `)) || !reject && got != 200 {
					t.Errorf("%s, reject %t: %d %s", x, reject, got, text)
				}
			}
			tensor := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 7)
			dim := sub(nil, 2, protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 2))
			tensor = sub(sub(sub(tensor, 2, dim), 8, "2026-11-03T20:00:00Z"), 8, "yesterday")
			request := sub(sub(nil, 1, sub(nil, 1, "ctr")), 2, sub(sub(nil, 1, "education"), 2, tensor))
			_, err := r.call(t.Context(), "PredictionService/Predict", request)
			if reject && (status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), `input "education": row 1: "yesterday" is not a date in the format iso`)) || !reject && err != nil {
				t.Errorf("reject %t: %v", reject, err)
			}
			if _, text := r.http("GET", "/metrics", ""); !reject && !strings.Contains(text, `wdlrun_serve_undated_values_total{input="education",model="ctr"} 13`) {
				t.Error(text)
			}
		}
	}
}

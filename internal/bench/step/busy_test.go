package step

import (
	"slices"
	"strings"
	"testing"
)

// TestABusyMachineIsNamed by each of its signs, and a quiet one is not.
func TestABusyMachineIsNamed(t *testing.T) {
	for _, x := range []struct {
		busy func(r *Result)
		want string
	}{
		{func(r *Result) {}, ""},
		{func(r *Result) { r.CoreShare = 0 }, ""}, // not known
		{func(r *Result) { r.CoreShare = .6 }, "for 40 % of the steps' time others had the core"},
		{func(r *Result) { r.P90MS = 36 }, "of ten steps one took 2.0 times as long as the fastest"},
		{func(r *Result) { r.Machine.PeakP10 = 55e9 }, "multiply-adds went at 55 to 114 GFLOP/s"},
		{func(r *Result) { r.Share = 1.25 }, "the step took 80 % of its bound: they were measured at different speeds"},
	} {
		r := Result{CoreShare: .99, StepMS: 19, P10MS: 18, P90MS: 21, Share: .5, Machine: Machine{PeakP10: 112e9, PeakFLOPS: 113e9, PeakP90: 114e9},
			Parts: []Part{{Name: "pull"}}}
		x.busy(&r)
		r.Busy = r.signs()
		if want := slices.DeleteFunc([]string{x.want}, func(s string) bool { return s == "" }); !slices.Equal(r.Busy, want) {
			t.Errorf("%+v is busy by %q, want %q", r, r.Busy, want)
		}
		if text := r.String(); strings.Contains(text, "busy machine") != (x.want != "") || !strings.Contains(text, x.want) {
			t.Errorf("%q is not said in\n%s", x.want, text)
		}
	}
}

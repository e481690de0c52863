//go:build gpu

package check

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestLateCheck: a check that does not end is the last, and reports say which one has begun.
func TestLateCheck(t *testing.T) {
	limits["late"] = time.Millisecond
	defer delete(limits, "late")
	ends := make(chan bool)
	defer close(ends)
	var began []string
	r := &run{Setup: Setup{Progress: func(r Report) { began = append(began, r.Running) }}}
	late := func() (measured, error) {
		<-ends
		return measured{}, nil
	}
	if err := r.check("late", "device 3", late); !errors.Is(err, errLate) {
		t.Error(err)
	}
	if err := r.check("memory", "", func() (measured, error) { panic("it runs") }); !errors.Is(err, errLate) {
		t.Error(err)
	}
	if got := strings.Join(began, ","); got != "late device 3," {
		t.Errorf("%q", got)
	}
	if len(r.Results) != 1 || r.Results[0].Text != "it did not end within 1ms; the remaining checks were not run" {
		t.Errorf("%+v", r.Results)
	}
}

func TestNext(t *testing.T) {
	for _, x := range []struct {
		results []Result
		first   []string
	}{
		{nil, []string{"Train with your configuration", "Measure a step"}},
		{[]Result{{Name: "settings", Outcome: Advice}}, []string{"Change the settings", "Train with your"}},
		{[]Result{{Name: "collectives", Outcome: Skipped, Text: "there is one device"}}, []string{"Train with your", "Measure a step"}},
		{[]Result{{Name: "libraries", Outcome: Failed}, {Name: "inventory", Outcome: Skipped, Text: "no NVML"}}, []string{"Do what the check `libraries` names", "Make the check `inventory` possible (no NVML)."}},
		{[]Result{{Name: "kernels", Outcome: Failed}, {Name: "kernels", Outcome: Failed}}, []string{"Do not train on this device", "Run gpu-check again: a failure"}},
	} {
		got := Report{Results: x.results}.next("a.txt")
		if len(got) != 3 || !strings.HasPrefix(got[0], x.first[0]) || !strings.HasPrefix(got[1], x.first[1]) || got[2] != "Send a.txt." {
			t.Errorf("%+v: %q", x.results, got)
		}
	}
	for name := range limits {
		if _, measures := remedies[name]; !measures && name != "settings" && name != "inventory" { // these do not fail
			t.Errorf("%s has no remedy", name)
		}
	}
	var text strings.Builder
	if err := Write(&text, Report{Running: "kernels device 0"}); err != nil || !strings.HasSuffix(text.String(), "This report is not complete: the program ended during the check kernels device 0.\n") {
		t.Errorf("%v: %s", err, text.String())
	}
}

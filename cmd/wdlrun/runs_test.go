package main

import (
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestRunsNameTheirData: if runs were evaluated on different data, the table says which.
func TestRunsNameTheirData(t *testing.T) {
	for of, want := range map[string]bool{"test": false, "valid": true, "": false} {
		var b strings.Builder
		all := []*runs.Summary{{Name: "a", EvaluatedOn: "test"}, {Name: "b", EvaluatedOn: of}}
		fatal.If(t, runsTable(&b, "runs", len(all), all))
		if got := strings.Contains(b.String(), "metrics of"); got != want {
			t.Errorf("test and %q:\n%s", of, &b)
		}
	}
}

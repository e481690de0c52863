package plan

import (
	"testing"

	"github.com/wdlrun/wdlrun/sparse"
)

func TestExchange(t *testing.T) {
	here := Table{Name: "user", Strategy: sparse.Rows, Why: InPlace}
	for want, p := range map[string]Plan{
		"": {Tables: []Table{here, here}},
		"exchange of tables: 1 as rows (all of it)":                               {Tables: []Table{{Name: "user", Strategy: sparse.Rows, Why: "all of it"}}},
		"exchange of tables: 1 as rows (" + InPlace + "); words pooled (by hand)": {Tables: []Table{here, {Name: "words", Strategy: sparse.Pooled, Why: "by hand"}}},
	} {
		if got := p.Exchange(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

package wdl

import (
	"testing"

	"github.com/wdlrun/wdlrun/internal/wdl/config"
)

// TestOtherDelimiter: another format has its own delimiter, unless one is set.
func TestOtherDelimiter(t *testing.T) {
	for want, set := range map[string][]string{
		"\t": {"data.header=true"},
		"":   {"data.format=csv"},
		";":  {"data.format=csv", "data.delimiter=;"},
	} {
		c := config.Default()
		c.Data.Format, c.Data.Delimiter = "tsv", "\t"
		o := EvalOptions{Set: set}
		if err := o.readOtherwise(c); err != nil || c.Data.Delimiter != want {
			t.Errorf("%q: delimiter %q, %v; want %q", set, c.Data.Delimiter, err, want)
		}
	}
}

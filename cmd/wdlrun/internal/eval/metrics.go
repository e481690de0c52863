package eval

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// Evaluated prints the metrics of an evaluation.
func Evaluated(w io.Writer, what string, m *metrics.Metrics, note string) {
	fmt.Fprintf(w, "%-6s %s%s\n", what, m, note)
	if base := m.Base(); base != "" {
		fmt.Fprintf(w, "       %s\n", base)
	}
	for i := range m.Labels {
		l := &m.Labels[i]
		Evaluated(w, "  "+l.Label, &l.Metrics, "")
	}
}

// NotTrained is the reason why values of an evaluation are unknown.
const NotTrained = "training has not seen"

// maxUnknown is the number of features that unknown names.
const maxUnknown = 8

// Unknown prints the number of unknown values of the features that have most, also as a
// share of the samples unless lists have more of them, and the reason.
func Unknown(w io.Writer, counts map[string]int64, samples int64, why string) {
	if len(counts) == 0 {
		return
	}
	var all []string
	most := func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) }
	names := slices.SortedFunc(maps.Keys(counts), most)
	for _, name := range names[:min(len(names), maxUnknown)] {
		n := fmt.Sprintf("%s %d", name, counts[name])
		if samples >= counts[name] && samples > 0 {
			n += fmt.Sprintf(" (%.3g %%)", 100*float64(counts[name])/float64(samples))
		}
		all = append(all, n)
	}
	if n := len(names) - len(all); n > 0 {
		all = append(all, plural.Of(n, "more feature"))
	}
	fmt.Fprintf(w, "values that %s: %s\n", why, strings.Join(all, ", "))
}

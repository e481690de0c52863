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

// maxUnknown is the number of features that Unknown names.
const maxUnknown = 8

// Unknown prints, for each reason, the number of unknown values of the features that have most, also as a
// share of the samples unless lists have more of them.
func Unknown(w io.Writer, counts map[string]metrics.Unknown, samples int64) {
	for _, of := range []struct {
		reason string
		count  func(u metrics.Unknown) int64
	}{
		{"too rare for the vocabulary (min_count, max_size)", func(u metrics.Unknown) int64 { return u.Rare }},
		{"newer than the model (train -from gives them rows)", func(u metrics.Unknown) int64 { return u.Newer }},
		{"not in a format of the vocabulary", func(u metrics.Unknown) int64 { return u.OtherFormat }},
	} {
		some := map[string]int64{}
		for name, u := range counts {
			if n := of.count(u); n > 0 {
				some[name] = n
			}
		}
		if len(some) > 0 {
			fmt.Fprintf(w, "values that are %s: %s\n", of.reason, mostOf(some, samples))
		}
	}
}

// mostOf names the features with the largest counts.
func mostOf(counts map[string]int64, samples int64) string {
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
	return strings.Join(all, ", ")
}

package config

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/data/pairs"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestSuggestCrosses: the pairs of fields that say more about the label than their parts become
// crosses. A pair that is the label in disguise is named and not proposed. Rows without weight do
// not count. Of several features of one field, the category is crossed. Random labels give nothing.
func TestSuggestCrosses(t *testing.T) {
	const rows = 6000
	for kind, want := range map[string][]string{
		"planted": {"crosses:\n  - {of: [site, ad]}   # lowers the log-loss by 0.", ", 72 combinations\n\n"},
		"weekday": {"crosses:\n  - {of: [seen_at_weekday, ad]}"},
		"leak":    {`# CHECK: the pair [site, ad] may reveal the label: alone it predicts nearly every row`, "#   - {of: [A, B]}"},
		"weights": {"# None of 1 pair says more about the label", "#   - {of: [A, B]}"},
		"random":  {"# None of 1 pair says more about the label", "#   - {of: [A, B]}"},
		"rare":    {"# Fewer than 50 of these rows have one of the classes", "#   - {of: [A, B]}"},
	} {
		var b strings.Builder
		r := rand.New(rand.NewPCG(1, 1))
		b.WriteString("click,seen_at,site,ad,price,sample_weight\n")
		for i := range rows {
			site, ad, price, weight, at := r.IntN(12), r.IntN(6), r.IntN(1000), 1, 1_400_000_000+3600*int64(i)
			one := r.IntN(10) < 3
			switch days := at/86400 + 3; kind {
			case "planted":
				one = r.IntN(10) < 2+6*((site+ad)%2)
			case "weekday":
				one = r.IntN(10) < 2+6*((int(days%7)+ad)%2)
			case "leak":
				one = (site+ad)%2 == 0
			case "weights":
				if weight = i % 2; weight == 0 {
					one = (site+ad)%2 == 0
				}
			case "rare":
				one = i%200 == 0
			}
			if kind != "weekday" {
				at = 1
			}
			fmt.Fprintf(&b, "%d,%d,s%d,a%d,%d.5,%d\n", map[bool]int{true: 1}[one], at, site, ad, price, weight)
		}
		in, err := inspect.All([]string{datatest.Write(t, "clicks.csv", b.String())}, rows)
		fatal.If(t, err)
		text := Suggest(in, "")
		if _, err := Parse("clicks.yaml", text); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		for _, w := range want {
			if !strings.Contains(string(text), w) {
				t.Errorf("%s: no %s in\n%s", kind, w, text)
			}
		}
	}
}

// TestSuggestLeftCrosses: crosses that a training did not confirm are comments.
func TestSuggestLeftCrosses(t *testing.T) {
	for left, want := range []string{
		"# note\ncrosses:\n  - {of: [country, ad_id]}", "# note\ncrosses:\n  - {of: [country, ad_id]}", "# note\n# crosses:\n#   - {of: [country, ad_id]}",
	} {
		x := &Crosses{Note: "note", Left: left, Found: &pairs.Found{Tried: 3, Pairs: []pairs.Pair{{A: 0, B: 1}, {A: 0, B: 2}}}}
		text := SuggestWith(clicks(), "", x)
		c, err := Parse("clicks.yaml", text)
		if err != nil || len(c.Crosses) != 2-left || !strings.Contains(string(text), want) {
			t.Errorf("%d left: %v\n%s", left, err, text)
		}
	}
}

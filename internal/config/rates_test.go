package config

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestSuggestRates: fields of many values that predict the label get encode: rate if a training
// confirms it. Numbers whose meaning is unclear are keys only if they predict the label better so, and
// get a rate instead of a hash. Random labels give nothing.
func TestSuggestRates(t *testing.T) {
	for _, random := range []bool{false, true} {
		var b strings.Builder
		r := rand.New(rand.NewPCG(1, 1))
		b.WriteString("click,site,level,small,price\n")
		rates := map[int]int{}
		for range 12000 {
			site, code, one := r.IntN(90), r.IntN(2500), r.IntN(10) < 3
			if _, ok := rates[code]; !ok {
				rates[code] = 1 + 7*r.IntN(2)
			}
			if !random {
				one = r.IntN(20) < rates[code]+6*(site%2)
			}
			fmt.Fprintf(&b, "%d,s%d,%d,c%d,%d.5\n", map[bool]int{true: 1}[one], site, 3*code+10, site%7, r.IntN(1000))
		}
		in, err := inspect.All([]string{datatest.Write(t, "clicks.csv", b.String())}, 20000)
		fatal.If(t, err)
		x := &Crosses{}
		text := string(SuggestWith(in, "", x))
		if strings.Contains(text, "encode: rate") {
			t.Errorf("rates that no training confirmed:\n%s", text)
		}
		if hashed := strings.Contains(text, "{field: level, encode: hash}"); hashed == random || random != (len(x.Rates.Columns) == 0) {
			t.Errorf("random %t: columns %v\n%s", random, x.Rates.Columns, text)
		}
		x.Untried(", because it rains")
		note := "  # encode: rate may help fields of many values, and was not tried in a training, because it rains.\n"
		if has := strings.Contains(string(SuggestWith(in, "", x)), note); has == random {
			t.Errorf("random %t: note %t", random, has)
		}
		if random {
			continue
		}
		x.Rates.Used, x.Rates.Note = true, "note"
		text = string(SuggestWith(in, "", x))
		for _, want := range []string{"{field: site, encode: rate}   # its share", "{field: level, encode: rate}   # CHECK: identifiers", "  # note\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in\n%s", want, text)
			}
		}
		if strings.Contains(text, "{field: level, encode: hash}") || strings.Contains(text, "{field: small, encode: rate}") {
			t.Errorf("a hash, or a rate of few values, in\n%s", text)
		}
		if _, err := Parse("clicks.yaml", []byte(text)); err != nil {
			t.Error(err)
		}
	}
}

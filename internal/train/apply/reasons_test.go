package apply

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestReasonsOfUnknownValues: the test of a training, eval and predict of a checkpoint and of an
// exported model count the same values as rare, newer and in another format, on 1 and 2 ranks.
// The unknown values of the training data are rare. A missing value is not unknown, even if the training had none.
func TestReasonsOfUnknownValues(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, rows, newSite int, item func(i int) string) string {
		var b strings.Builder
		b.WriteString("click,item,site\n")
		for i := range rows {
			site := i % 10
			if i == newSite {
				site = i
			}
			if i > 0 && i == newSite+10 { // the training data has no missing values
				fmt.Fprintf(&b, "%d,,\n", i*7%3&1)
				continue
			}
			fmt.Fprintf(&b, "%d,%s,s%d\n", i*7%3&1, item(i), site)
		}
		path := filepath.Join(dir, name)
		fatal.If(t, os.WriteFile(path, []byte(b.String()), 0o644))
		return path
	}
	train := write("train.csv", 400, -10, func(i int) string {
		if i < 30 {
			return fmt.Sprint("rare", i)
		}
		return fmt.Sprint("i", i%20)
	})
	test := write("test.csv", 200, 150, func(i int) string {
		switch {
		case i < 7:
			return fmt.Sprint("rare", i)
		case i < 18:
			return "brandnew"
		case i < 31:
			return fmt.Sprint(i)
		}
		return fmt.Sprint("i", i%20)
	})
	want := map[string]metrics.Unknown{"item": {Rare: 7, Newer: 11, OtherFormat: 13}, "site": {Newer: 1}, "item_x_site": {Newer: 2}}
	for size := 1; size <= 2; size++ {
		c, err := config.Parse("why.yaml", fmt.Appendf(nil, `
data: {train: [%q], test: [%q], header: true}
label: {field: click}
features: [{field: item, encode: vocabulary, min_count: 2}, {field: site, encode: hash}]
crosses: [{of: [item, site]}]
model: {embedding_dim: 4, hidden: [8]}
train: {global_batch: 32, epochs: 1}
`, train, test))
		fatal.If(t, err)
		r := trained(t, size, c)
		if got := r.TrainWhy; !reflect.DeepEqual(got, map[string]metrics.Unknown{"item": {Rare: 30}}) || r.TrainUnknown["item"] != 30 {
			t.Errorf("%d ranks: training data: %v", size, got)
		}
		if !reflect.DeepEqual(r.TestWhy, want) || r.TestUnknown["item"] != 31 {
			t.Errorf("%d ranks: test data: %v, want %v", size, r.TestWhy, want)
		}
		o := PredictOptions{Eval: EvalOptions{Resume: r.RunDir, Data: []string{test}}}
		_, from := predictAll(t, o)
		versions, _ := exported(t, r.RunDir, "")
		o.Eval.Resume, o.Model = "", versions
		_, of := predictAll(t, o)
		e := evaluation(t, EvalOptions{Resume: r.RunDir, Data: []string{test}})
		for name, got := range map[string]map[string]metrics.Unknown{"predict": from.Why, "an exported model": of.Why, "eval": e.Why} {
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%d ranks: %s: %v, want %v", size, name, got, want)
			}
		}
	}
}

package jobs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestInitOfPoorData: init, unchanged, of data with little or nothing to learn: an error that says what is
// missing, or a configuration whose training ends and names the doubt.
func TestInitOfPoorData(t *testing.T) {
	t.Parallel()
	many := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint("f", i))
		}
		return all
	}
	for name, x := range map[string]struct {
		head   string
		rows   int
		row    func(r *rand.Rand, i int) string
		init   string // part of the error of init
		config string // part of the configuration
		train  string // part of the messages of the training
	}{
		"all constant": {head: "a,b", rows: 500, row: func(r *rand.Rand, i int) string { return fmt.Sprint("x,7,", i%2) }, init: "no field other than label has two values"},
		"one class":    {head: "a,b", rows: 500, row: func(r *rand.Rand, i int) string { return fmt.Sprintf("s%d,%d,1", i%9, i%31) }, init: "training needs both classes"},
		"twelve rows":  {head: "a,b", rows: 12, row: func(r *rand.Rand, i int) string { return fmt.Sprintf("s%d,%d,%d", i%3, 20+i, i%2) }, train: "fewer than 50: validation metrics"},
		"one in 10000": {head: "a,b", rows: 20_000, row: func(r *rand.Rand, i int) string {
			return fmt.Sprintf("s%d,u%d,%t", r.IntN(20), r.IntN(300), i%10_000 == 7)
		}, train: "fewer than 50: validation metrics, and early stopping by them, depend on chance"},
		"weights of zero": {head: "a,b,sample_weight", rows: 1000, row: func(r *rand.Rand, i int) string { return fmt.Sprintf("s%d,%d,0,%d", r.IntN(9), r.IntN(31), i%2) },
			config: "sample_weight, encode: hash}   # left out: it has only one value"},
		"some weights of zero": {head: "a,b,sample_weight", rows: 1000, row: func(r *rand.Rand, i int) string {
			return fmt.Sprintf("s%d,%d,%d,%d", r.IntN(9), r.IntN(31), i%2, r.IntN(2))
		},
			config: "weight: sample_weight"},
		"400 columns": {head: strings.Join(many(400), ","), rows: 300, row: func(r *rand.Rand, i int) string {
			return strings.Repeat(fmt.Sprintf("v%d,", r.IntN(9)), 400) + fmt.Sprint(r.IntN(2))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var b strings.Builder
			r := rand.New(rand.NewPCG(1, 2))
			fmt.Fprintf(&b, "%s,label\n", x.head)
			for i := range x.rows {
				fmt.Fprintln(&b, x.row(r, i))
			}
			write(t, dir, "a.csv", b.String())
			o := run(t, dir, "init", "-data", "a.csv", "-out", "a.yaml")
			if x.init != "" {
				if o.code == 0 || !strings.Contains(o.stderr, x.init) {
					t.Errorf("code %d, no %q in %s", o.code, x.init, o.stderr)
				}
				return
			}
			if o.code != 0 {
				t.Fatal(o.stderr)
			}
			text, err := os.ReadFile(filepath.Join(dir, "a.yaml"))
			fatal.If(t, err)
			if !strings.Contains(string(text), x.config) {
				t.Errorf("no %q in %s", x.config, text)
			}
			o = must(t, dir, "-np 2 train -config a.yaml -set train.epochs=2")
			if !strings.Contains(o.stderr, x.train) || !strings.Contains(o.stdout+o.stderr, "training again on all ") {
				t.Errorf("no %q in %s%s", x.train, o.stdout, o.stderr)
			}
		})
	}
}

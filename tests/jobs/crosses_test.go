package jobs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// TestInitTriesCrosses: init proposes a cross that a short training confirms, with its metrics, and
// data stats lists the same pair. It leaves no file.
func TestInitTriesCrosses(t *testing.T) {
	t.Parallel()
	dir, tmp := t.TempDir(), t.TempDir()
	var b strings.Builder
	b.WriteString("click,site,ad,hour\n")
	r := rand.New(rand.NewPCG(1, 1))
	taste := make([]int, 40*30)
	for i := range taste {
		taste[i] = 1 + 7*r.IntN(2)
	}
	for range 9000 {
		site, ad := r.IntN(40), r.IntN(30)
		fmt.Fprintf(&b, "%t,s%d,a%d,%d\n", r.IntN(10) < taste[30*site+ad], site, ad, r.IntN(24))
	}
	write(t, dir, "clicks.csv", b.String())
	o := runWith(t, dir, "TMPDIR="+tmp, "init", "-data", "clicks.csv")
	for _, want := range []string{"# A short training on these rows agrees: its validation log-loss is 0.", "\ncrosses:\n  - {of: [site, ad]}   # lowers the log-loss by 0."} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("no %q in\n%s", want, o.stdout)
		}
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
	if o := must(t, dir, "data stats clicks.csv"); !strings.Contains(o.stdout, "pairs that say more than their parts, of 1 (") || !strings.Contains(o.stdout, "\nsite × ad  1199          −0.") {
		t.Error(o.stdout)
	}
}

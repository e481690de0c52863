package nearest

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNearest(t *testing.T) {
	keys := []string{"epochs", "batch", "global_batch", "seed", "shuffle", "optimizer"}
	for word, want := range map[string]string{
		"epoch": "epochs", "bacth": "batch", "globalBatch": "global_batch", "global-batch": "global_batch", "sed": "seed",
		"suffle": "shuffle", "optimiser": "optimizer", "batch_size": "batch", "opt": "optimizer", "xyzzy": "", "": "", "q": "",
		strings.Repeat("epochs", 1000): "",
	} {
		if got := Of(word, keys); got != want {
			t.Errorf("nearest to %.20q is %q, want %q", word, got, want)
		}
	}
}

// TestShortWords: two edits make a word of two letters of any other, unless one begins with the other.
func TestShortWords(t *testing.T) {
	for word, want := range map[string]string{"tags": "", "t": "ts", "st": "ts", "tsx": "ts"} {
		if got := Of(word, []string{"ts"}); got != want {
			t.Errorf("nearest to %q is %q, want %q", word, got, want)
		}
	}
}

// TestDistance against the definition, by recursion.
func TestDistance(t *testing.T) {
	var slow func(a, b string) int
	slow = func(a, b string) int {
		if a == "" || b == "" {
			return len(a) + len(b)
		}
		i, j := len(a)-1, len(b)-1
		cost := 1
		if a[i] == b[j] {
			cost = 0
		}
		d := min(slow(a[:i], b)+1, slow(a, b[:j])+1, slow(a[:i], b[:j])+cost)
		if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
			d = min(d, slow(a[:i-1], b[:j-1])+1)
		}
		return d
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.StringMatching(`[ab_]{0,5}`).Draw(t, "a"), rapid.StringMatching(`[ab_]{0,5}`).Draw(t, "b")
		if got, want := distance(a, b), slow(a, b); got != want {
			t.Fatalf("from %q to %q: %d, want %d", a, b, got, want)
		}
	})
}

package metrics

import (
	"math"
	"strings"
	"testing"
)

// TestCompareLogits: the mean may move by limit standard deviations, and the standard deviation change by
// that factor. A model at the beginning of its training has room.
func TestCompareLogits(t *testing.T) {
	nan := float32(math.NaN())
	order, opposite, alike := make([]float32, 200), make([]float32, 200), make([]float32, 200)
	for i := range order {
		order[i] = float32(i%20) - 10
		opposite[i], alike[i] = -order[i], order[i]/2+float32(i*7%11)
	}
	wide := []float32{-4, 0, 4}
	for _, x := range []struct {
		what          string
		current, next []float32
		limit         float64
		want          string
	}{
		{"equal", wide, wide, 1, ""},
		{"moved within the limit", wide, []float32{5, 9, 13}, 3, ""},
		{"moved beyond it", wide, []float32{6, 10, 14}, 3, "the mean of its logits is 10, the current version's is 0 with standard deviation 3.266"},
		{"moved down", wide, []float32{-14, -10, -6}, 3, "the mean of its logits is -10"},
		{"exploded", wide, []float32{-4e5, 0, 4e5}, 3, "the standard deviation of its logits is 3.266e+05, the current version's is 3.266"},
		{"collapsed", wide, []float32{.1, .1, .1}, 3, "the standard deviation of its logits is "},
		{"grows from the beginning", []float32{0, .001, .002}, []float32{-2, 0, 2}, 3, ""},
		{"explodes from the beginning", []float32{0, .001, .002}, []float32{-9, 0, 9}, 3, "the standard deviation"},
		{"not finite", wide, []float32{0, nan}, 3, "its logits are not finite"},
		{"infinite", wide, []float32{0, float32(math.Inf(-1))}, 3, "its logits are not finite"},
		{"replaces one that is not finite", []float32{nan}, wide, 3, ""},
		{"the opposite order", order, opposite, 3, "the correlation of its logits with the current version's is -1"},
		{"about the same order", order, alike, 3, ""},
		{"the opposite order of few rows", order[6:14], opposite[6:14], 3, ""},
		{"no rows", nil, nil, 3, ""},
	} {
		if got := CompareLogits(x.current, x.next, x.limit); x.want == "" && got != "" || !strings.HasPrefix(got, x.want) {
			t.Errorf("%s: %q, want %q", x.what, got, x.want)
		}
	}
}

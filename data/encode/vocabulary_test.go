package encode

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/data/wire"
)

// words follows from the counts alone: of a naive twin, which sorts all of them,
// and however the strings are dealt over parts.
func TestWordsAreTheMostFrequent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`[a-e]{1,2}`), 0, 200).Draw(t, "texts")
		least, most := rapid.Int64Range(1, 5).Draw(t, "least"), rapid.Int64Range(0, 12).Draw(t, "most")
		count := map[string]int64{}
		parts := []*vocabulary{newVocabulary(), newVocabulary(), newVocabulary()}
		for i, s := range texts {
			count[s]++
			if err := parts[i%3].add([]byte(s), 1); err != nil {
				t.Fatal(err)
			}
		}
		joint := newVocabulary()
		for _, p := range rapid.Permutation(parts).Draw(t, "order") {
			if err := joint.merge(&wire.Reader{B: p.append(nil)}); err != nil {
				t.Fatal(err)
			}
		}
		var want []string
		for s, n := range count {
			better := int64(0) // strings that come before s
			for o, m := range count {
				if m > n || m == n && o < s {
					better++
				}
			}
			if n >= least && (most == 0 || better < most) {
				want = append(want, s)
			}
		}
		slices.Sort(want)
		if got := joint.words(least, most); !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}

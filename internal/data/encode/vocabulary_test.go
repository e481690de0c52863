package encode

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/data/wire"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// words depends only on the counts: it equals a naive version that sorts all of them, for
// any partition of the strings.
func TestWordsAreTheMostFrequent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`[a-e]{1,2}`), 0, 200).Draw(t, "texts")
		least, most := rapid.Int64Range(1, 5).Draw(t, "least"), rapid.Int64Range(0, 12).Draw(t, "most")
		count := map[string]int64{}
		parts := []*vocabulary{newVocabulary(), newVocabulary(), newVocabulary()}
		for i, s := range texts {
			count[s]++
			fatal.If(t, parts[i%3].add([]byte(s), 1))
		}
		joint := newVocabulary()
		for _, p := range rapid.Permutation(parts).Draw(t, "order") {
			fatal.If(t, joint.merge(&wire.Reader{B: p.append(nil)}))
		}
		var want []string
		for s, n := range count {
			better := int64(0) // strings that sort before s
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

// TestNewWordsHaveATrainedRow: if every string would get a separate key, a tenth of those
// that occur once get KeyUnknown, and no others.
func TestNewWordsHaveATrainedRow(t *testing.T) {
	v := newVocabulary()
	const once = 5000
	for i := range 2 * once {
		fatal.If(t, v.add(fmt.Appendf(nil, "word %d", i), 1+int64(i/once)))
	}
	own := v.own(1, 0)
	if n := 2*once - len(own); n < once*8/100 || n > once*12/100 {
		t.Errorf("%d of %d strings that occur once share the unknown key, want a tenth", n, once)
	}
	for w := range v.index {
		if _, has := slices.BinarySearch(own, w); !has && v.count(w) > 1 {
			t.Errorf("%q occurs %d times and has no key of its own", w, v.count(w))
		}
	}
	for _, cut := range [][2]int64{{2, 0}, {1, once}} { // there are strings without a key
		if own, words := v.own(cut[0], cut[1]), v.words(cut[0], cut[1]); !slices.Equal(own, words) {
			t.Errorf("min_count %d, max_size %d: %d strings have a key, want %d", cut[0], cut[1], len(own), len(words))
		}
	}
}

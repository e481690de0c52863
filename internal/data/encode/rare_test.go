package encode

import (
	"fmt"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestReasonsOfUnknownValues: a value that a vocabulary leaves out is rare, a value in a form that the
// vocabulary does not have is in another format, and any other value is newer. At most a few newer
// values in a hundred are called rare, also after a filter has been merged with others.
func TestReasonsOfUnknownValues(t *testing.T) {
	all := newVocabulary()
	for i := range 4000 {
		fatal.If(t, all.add(fmt.Appendf(nil, "item%d", i), int64(1+i%2)))
	}
	kept := all.own(2, 0)
	s := statistics{Vocabulary: kept, Rare: all.rare(2, 0, kept)}
	for _, n := range []int{0, 100, 8000} { // filters of other sizes
		other := newRareWords(n)
		for i := range n {
			other.add(keyOf(fmt.Appendf(nil, "other%d", i)))
		}
		s.Rare = s.Rare.with(other)
		fatal.If(t, s.Rare.check())
	}
	fatal.If(t, s.index())
	find := func(text string) uint64 { return s.set.find(keyOf([]byte(text)), []byte(text)) }
	wrong := 0
	for i := range 4000 {
		word := fmt.Sprint("item", i)
		if key := find(word); i%2 == 0 && key != keyRare || i%2 == 1 && key != keyOf([]byte(word)) {
			t.Fatalf("%s has the key %x", word, key)
		}
		if find(fmt.Sprint("new", i)) != KeyUnknown {
			wrong++
		}
	}
	if wrong > 160 {
		t.Errorf("%d of 4000 new values are called rare", wrong)
	}
	for text, want := range map[string]uint64{"7": keyOtherFormat, " 7": keyOtherFormat, "7.0": keyOtherFormat, "true": keyOtherFormat, " item0": keyRare, "é": KeyUnknown, " ": keyOtherFormat} {
		if got := find(text); got != want {
			t.Errorf("%q: %x, want %x", text, got, want)
		}
	}
	if all.rare(1, 0, kept) != nil || all.rare(2, 0, all.words(1, 0)) != nil {
		t.Error("a filter of a vocabulary that leaves nothing out")
	}
	if rareWords(make([]byte, 9)).check() == nil {
		t.Error("9 bytes are accepted")
	}
}

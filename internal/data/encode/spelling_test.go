package encode

import (
	"slices"
	"strings"
	"testing"
)

// A vocabulary finds other spellings of its integers and truth values, and no other values.
func TestVocabularyFindsOtherSpellings(t *testing.T) {
	for _, c := range []struct{ word, value string }{
		{"7", "7.0"}, {"7.0", "7"}, {"-12.0", "-12"}, {"-9223372036854775808", "-9223372036854775808.0"},
		{"true", "1"}, {"1", "true"}, {"True", "true"}, {"0", "false"}, {"FALSE", "0.0"}, {"1.0", "1"},
		{"a b", " a b"}, {"a", "a\t "}, {"7", " 7.0"},
	} {
		s := newKeySet(1)
		s.add(keyOf([]byte(c.word)))
		if got := s.find(keyOf([]byte(c.value)), []byte(c.value)); got != keyOf([]byte(c.word)) {
			t.Errorf("the vocabulary has %q and does not find %q", c.word, c.value)
		}
		if strings.Trim(c.value, blanks) == c.value && !slices.Contains(Spellings([]byte(c.word)), c.value) {
			t.Errorf("%q is no spelling of %q", c.value, c.word)
		}
	}
	for _, c := range []struct{ word, value string }{
		{"7", "007"}, {"7", "7.5"}, {"7", "7.00"}, {"007", "007.0"}, {"1", "0"}, {"yes", "true"}, {"7", ""}, {"", ".0"}, {"-", "-.0"}, {"a b", "ab"}, {" a", "a"}, {"", " "},
		{"12345678901234567890123", "12345678901234567890123.0"},
	} {
		s := newKeySet(1)
		s.add(keyOf([]byte(c.word)))
		if got := s.find(keyOf([]byte(c.value)), []byte(c.value)); got != KeyUnknown {
			t.Errorf("the vocabulary has %q and finds %q", c.word, c.value)
		}
	}
}

// A value that is in the vocabulary is itself, whatever other spellings there are.
func TestSpellingsInTheVocabularyDiffer(t *testing.T) {
	s := newKeySet(3)
	for _, w := range []string{"1", "true", "1.0"} {
		s.add(keyOf([]byte(w)))
	}
	for _, w := range []string{"1", "true", "1.0"} {
		if got := s.find(keyOf([]byte(w)), []byte(w)); got != keyOf([]byte(w)) {
			t.Errorf("%q has the key of another value", w)
		}
	}
	if got := s.find(keyOf([]byte("True")), []byte("True")); got != keyOf([]byte("1")) {
		t.Error("of several spellings, the first in ascending order counts")
	}
}

func TestUnknownValuesDoNotAllocate(t *testing.T) {
	s := newKeySet(1)
	for _, v := range [][]byte{[]byte("7.0"), []byte("true"), []byte("unknown")} {
		if n := testing.AllocsPerRun(100, func() { s.find(keyOf(v), v) }); n > 0 {
			t.Errorf("%q: %v allocations", v, n)
		}
	}
}

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
		{"72057594037927936", "7.205759403792794e+16"}, {"7.205759403792794e+16", "72057594037927936"}, {"-72057594037927936", "-7.205759403792794e+16"},
		{"72057594037927936", "72057594037927936.0"}, {"18446744073709549568", "1.844674407370955e+19"}, {"10000000000000000", "1e+16"},
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
	for _, c := range []struct{ word, value string }{ // not the usual spelling of the word
		{"12345678", "1.2345678E7"}, {"72057594037927936", "7.2057594037927936E16"}, {"7.205759403792794e+16", "7.205759403792794E16"}, {"-5000", "-5e3"},
	} {
		s := newKeySet(1)
		s.add(keyOf([]byte(c.word)))
		if got := s.find(keyOf([]byte(c.value)), []byte(c.value)); got != keyOf([]byte(c.word)) {
			t.Errorf("the vocabulary has %q and does not find %q", c.word, c.value)
		}
	}
	for _, c := range []struct{ word, value string }{
		{"72057594037927937", "7.205759403792794e+16"}, {"7.205759403792794e+16", "72057594037927937"}, {"120", "12e1"}, {"0", "0e1"}, {"1", "1e-0"}, {"1e1", "1x1"},
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
	for _, v := range [][]byte{[]byte("7.0"), []byte("true"), []byte("72057594037927936"), []byte("7.205759403792794e+16"), []byte("unknown")} {
		if n := testing.AllocsPerRun(100, func() { s.find(keyOf(v), v) }); n > 0 {
			t.Errorf("%q: %v allocations", v, n)
		}
	}
}

func TestIDsInAnySpelling(t *testing.T) {
	for text, want := range map[string]uint64{"7": 7, "7.0": 7, "true": 1, "False": 0, "7.205759403792794e+16": 72057594037927936, "-5e3": 1<<64 - 5000} {
		if got, ok := idOf([]byte(text)); !ok || got != want {
			t.Errorf("%s is %d, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "x", "7.5", "1.5e0", "1e20", "1e", "e1", "yes"} {
		if got, ok := idOf([]byte(text)); ok {
			t.Errorf("%q is %d", text, got)
		}
	}
}

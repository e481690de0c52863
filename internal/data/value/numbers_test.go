package value

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseNumber(t *testing.T) {
	for _, x := range []struct {
		text string
		want float64
		ok   bool
	}{
		{"0", 0, true}, {"-0", 0, true}, {"7", 7, true}, {"-12.50", -12.5, true}, {"+3", 3, true}, {".5", .5, true},
		{"5.", 5, true}, {"1e3", 1000, true}, {"1E-2", .01, true}, {"123456789012345678", 123456789012345678, true},
		{"0.1", .1, true}, {"3.4e38", 3.4e38, true}, {"1e-400", 0, true},
		{"", 0, false}, {"-", 0, false}, {".", 0, false}, {"1.2.3", 0, false}, {"1,5", 0, false}, {"abc", 0, false},
		{"NaN", 0, false}, {"inf", 0, false}, {"-Infinity", 0, false}, {"0x10", 0, false}, {"1_000", 0, false},
		{"1e39", 0, false}, {"1e999", 0, false}, {"3.5e38", 0, false}, {"1e", 0, false}, {"--1", 0, false},
	} {
		got, why := ParseNumber([]byte(x.text))
		if (why == "") != x.ok || got != x.want && x.ok {
			t.Errorf("parseNumber(%q) = %v, %q", x.text, got, why)
		}
	}
	if _, why := ParseNumber([]byte("nan")); !strings.Contains(why, "data.missing") {
		t.Errorf("nan: %s", why)
	}
	for text, want := range map[string]string{
		"-0.27|-2.03|1": "is not a number, but numbers with '|' between them; set separator: \"|\" and encode: vector",
		"1;2":           "is not a number, but numbers with ';' between them; set separator: \";\" and encode: vector",
		"1|x":           "is not a number; if it means missing, list it in data.missing",
		"|1":            "is not a number; if it means missing, list it in data.missing",
		"5 kg":          "is not a number; if it means missing, list it in data.missing",
	} {
		if _, why := ParseNumber([]byte(text)); why != want {
			t.Errorf("%s: %s, want %s", text, why, want)
		}
	}
	for text, comma := range map[string]bool{"7,16": true, "-1,234,567.5": true, ",": false, "a,1": false, "7.1.6": false, "1,5 kg": false} {
		if _, why := ParseNumber([]byte(text)); !strings.HasPrefix(why, "is not a number") || strings.Contains(why, "commas") != comma {
			t.Errorf("%s: %s", text, why)
		}
	}
}

// The fast path returns the same bits as the library.
func TestSmallNumbersAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`-?[0-9]{0,9}\.?[0-9]{0,8}`).Draw(t, "text")
		got, ok := SmallNumber([]byte(s))
		want, err := strconv.ParseFloat(s, 64)
		if ok && (err != nil || math.Float64bits(got) != math.Float64bits(want)) {
			t.Fatalf("smallNumber(%q) = %v, want %v", s, got, want)
		}
	})
}

func FuzzParseNumber(f *testing.F) {
	for _, s := range []string{"1", "-2.5", "1e10", "9007199254740993", ".", "0.000001"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, why := ParseNumber([]byte(s))
		want, err := strconv.ParseFloat(s, 64)
		if why == "" && (err != nil || got != want) {
			t.Fatalf("parseNumber(%q) = %v, the library says %v, %v", s, got, want, err)
		}
	})
}

func TestParseID(t *testing.T) {
	for _, x := range []struct {
		text string
		want uint64
		ok   bool
	}{
		{"0", 0, true}, {"18446744073709551615", math.MaxUint64, true}, {"-1", math.MaxUint64, true},
		{"-9223372036854775808", 1 << 63, true}, {"007", 7, true},
		{"18446744073709551616", 0, false}, {"-9223372036854775809", 0, false}, {"", 0, false}, {"-", 0, false},
		{"1.0", 0, false}, {"1e3", 0, false}, {"99999999999999999999", 0, false}, {"0x1", 0, false}, {"1 2", 0, false},
	} {
		if got, ok := ParseID([]byte(x.text)); ok != x.ok || ok && got != x.want {
			t.Errorf("parseID(%q) = %d, %v", x.text, got, ok)
		}
	}
}

package expr

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// rowOf returns the row of an expression from fields given as strings.
func rowOf(e *Expr, fields map[string]string) *Row {
	r := &Row{}
	for _, f := range e.Fields {
		x, err := strconv.ParseFloat(fields[f.Name], 64)
		if err != nil {
			x = math.NaN()
		}
		r.Numbers = append(r.Numbers, x)
		if s := fields[f.Name]; s != "" {
			r.Texts = append(r.Texts, []byte(s))
		} else {
			r.Texts = append(r.Texts, nil)
		}
	}
	return r
}

func TestValue(t *testing.T) {
	fields := map[string]string{"rating": "4", "tips": "2", "fare": "8", "zero": "0", "city": "Rome", "home": "Bern", "work": "Bern", "zip code": "007", "größe": "1.5", "none": "", "vast": "9007199254740993", "less": "-9007199254740993", "day": "2026-11-25", "ms": "1999"}
	for s, want := range map[string]string{
		"rating >= 4": "1", "rating>4": "0", "tips / fare": "0.25", "1 + 2 * 3 - 4": "3", "(1 + 2) * -3": "-9", "7 % 4": "3", "- -2": "2", "1.5e2": "150",
		"2 - 3 - 4": "-5", "8 / 4 / 2": "1", "-rating + 5": "1", "größe * 2": "3", "(rating > 3) + (fare > 3)": "2",
		"log(1)": "0", "floor(-1.5)": "-2", "abs(tips - fare)": "6", "min(3, tips, fare)": "2", "max(rating, 1)": "4", "if(rating > 3, 2, 1)": "2",
		`city == "Rome"`: "1", "city != 'Rome'": "0", "home == work": "1", "home == city": "0", "city in ('Bern', 'Rome')": "1", "city not in ['Bern']": "1",
		"rating in (1, 4)": "1", "rating in (-4)": "0", "`zip code` == '007'": "1", "`zip code` == 7": "1", `"Rome" == city`: "1",
		"rating > 3 and fare > 3": "1", "rating > 9 or fare > 9": "0", "not rating > 9": "1", "not not (rating > 9)": "0", "rating > 3 && !(fare > 9) || 1 > 2": "1",
		"missing(none)": "1", "missing(city)": "0", "missing(none + 1)": "1", "not missing(rating)": "1", "missing(tips / zero)": "1",
		`seconds(day, "iso")`: "1.7955648e+09", `seconds(ms, "unix_ms") < 2`: "1", `seconds(city, "iso")`: "", `seconds(none, "unix")`: "",
		// Integers that numbers leave out.
		"vast == 9007199254740993": "1", "vast == 9007199254740992": "0", "vast != 9007199254740992": "1", "9007199254740992 == vast": "0", "less == -9007199254740993": "1", "less == -9007199254740992": "0",
		"vast in (9007199254740992, 9007199254740994)": "0", "vast in (9007199254740993)": "1", "less in (-9007199254740993)": "1", "vast > 9007199254740990": "1", "none == 9007199254740993": "",
		// A missing value makes the result missing.
		"none + 1": "", "none > 1": "", "none == 'x'": "", "none in (1)": "", "none in ('x')": "", "none not in ('x')": "", "not (none > 1)": "", "if(none > 1, 1, 2)": "",
		"max(none, 1)": "", "tips / zero": "", "zero / zero": "", "log(zero)": "", "log(-1)": "", "1 % zero": "",
		"none > 1 and rating > 9": "0", "rating > 9 and none > 1": "0", "none > 1 and rating > 3": "", "none > 1 or rating > 3": "1", "rating > 3 or none > 1": "1", "none > 1 or rating > 9": "",
	} {
		e, err := Parse(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		got := fmt.Sprint(e.Value(rowOf(e, fields)))
		if got == "NaN" {
			got = ""
		}
		if got != want {
			t.Errorf("%s is %q, want %q", s, got, want)
		}
	}
}

// An error contains its place.
func TestFaults(t *testing.T) {
	for s, want := range map[string]string{
		"":                           "at character 1: a field, a number or a string is expected, not the end",
		"rating >":                   "at character 9: a field",
		"rating > > 1":               `at character 10: a field, a number or a string is expected, not ">"`,
		"rating = 4":                 "at character 8: '='",
		"1 < x < 2":                  `at character 7: "<" is not expected here`,
		"(1 + 2":                     `at character 7: ")" is expected, not the end`,
		"a + 'x'":                    `at character 5: "x" is a text; a number is needed (+)`,
		"a > 'x'":                    "at character 3: strings have no order",
		"a + 1 == 'x'":               "at character 3: a number is compared with a text (==)",
		"a and b > 1":                "at character 1: and needs a condition, such as field == 1",
		"not a":                      "at character 5: not needs a condition",
		"lgo(a)":                     `at character 1: there is no function "lgo"; did you mean log?`,
		"log(a, b)":                  "at character 1: log takes one number, not 2",
		"max(a)":                     "at character 1: max takes two numbers or more, not 1",
		"a in 1":                     `at character 6: "(" is expected`,
		"a in (9007199254740993, 1)": "at character 25: a list contains numbers or strings, not both",
		"a in (1, 'x')":              "at character 10: a list contains numbers or strings, not both",
		"a in (b)":                   `at character 7: a list contains numbers or strings, not "b"`,
		"'x":                         "at character 1: ' is not closed",
		"1.2.3":                      `at character 1: "1.2.3" is not a number`,
		"a @ b":                      "at character 3: '@' has no meaning here",
		"'text'":                     `at character 1: "text" is a text`,
		"a == 1 'x'":                 `at character 8: "x" is not expected here`,
		"and":                        "at character 1: a field",
		strings.Repeat("(", 100):     "nested more than 64 deep",
		strings.Repeat("a", 5000):    "longer than 4096 bytes",
	} {
		if _, err := Parse(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %s", s, err, want)
		}
	}
}

func TestValueAllocatesNothing(t *testing.T) {
	e, err := Parse("if(tips / fare >= 0.2 and city in ('Rome', 'Bern') and not missing(city), log(fare), min(tips, 3))")
	fatal.If(t, err)
	r := rowOf(e, map[string]string{"tips": "2", "fare": "8", "city": "Bern"})
	if n := testing.AllocsPerRun(100, func() { e.Value(r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Arithmetic of numbers agrees with Go's, whatever the order of operators.
func TestArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := rapid.IntRange(0, 9).Draw(t, "a"), rapid.IntRange(0, 9).Draw(t, "b"), rapid.IntRange(1, 9).Draw(t, "c")
		x, y, z := float64(a), float64(b), float64(c)
		for s, want := range map[string]float64{
			"%d + %d * %d": x + y*z, "%d * %d + %d": x*y + z, "%d - %d / %d": x - y/z, "(%d - %d) / %d": (x - y) / z, "-%d * %d - %d": -x*y - z,
		} {
			s = fmt.Sprintf(s, a, b, c)
			e, err := Parse(s)
			fatal.If(t, err)
			if got := e.Value(&Row{}); got != want {
				t.Fatalf("%s is %v, want %v", s, got, want)
			}
		}
	})
}

func BenchmarkValue(b *testing.B) {
	e, err := Parse("tips / fare >= 0.2 and fare > 0")
	fatal.If(b, err)
	r := rowOf(e, map[string]string{"tips": "2", "fare": "8"})
	b.ReportAllocs()
	for b.Loop() {
		e.Value(r)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"rating >= 4", "tips / fare", "a in (1, -2) and not missing(`b c`) or max(1, log(x), 'y') != 3", "((((", "-!-1", "a == \"b\""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := Parse(s)
		if err != nil {
			if fault, ok := err.(*Error); !ok || fault.At < 0 || fault.At > max(len(s), maxBytes) {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		for _, x := range []float64{math.NaN(), 0, 1, -2.5, math.Inf(1)} {
			r := &Row{}
			for range e.Fields {
				r.Numbers, r.Texts = append(r.Numbers, x), append(r.Texts, []byte("b"))
			}
			if v := e.Value(r); e.Condition && v != 0 && v != 1 && v == v {
				t.Fatalf("condition %q is %v", s, v)
			}
		}
	})
}

package stats

import (
	"fmt"
	"math"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// of returns a column of strings, one per record.
func of(texts ...string) *Column {
	c := New([]string{"?"})
	var l value.List
	for _, s := range texts {
		l.SetText([]byte(s))
		c.Add(&l)
	}
	return c
}

func TestKinds(t *testing.T) {
	for _, tc := range []struct {
		texts   []string
		kind    value.Kind
		missing int64
	}{
		{nil, value.None, 0},
		{[]string{"", "?"}, value.None, 2},
		{[]string{"1", "-7", "9223372036854775807", "?"}, value.Int, 1},
		{[]string{"1", "9223372036854775808"}, value.Float64, 0},
		{[]string{"1", "2.50", "-1e3"}, value.Float64, 0},
		{[]string{"1", "007"}, value.Text, 0},
		{[]string{"1", "+7"}, value.Text, 0},
		{[]string{"1", "x"}, value.Text, 0},
		{[]string{"inf"}, value.Text, 0},
		{[]string{"-inf"}, value.Text, 0},
		{[]string{"NaN"}, value.Text, 0},
		{[]string{"1_000"}, value.Text, 0},
		{[]string{"0x10"}, value.Text, 0},
		{[]string{"1e999"}, value.Text, 0},
		{[]string{"2024-05-01"}, value.Text, 0},
	} {
		c := of(tc.texts...)
		if c.Kind() != tc.kind || c.Missing != tc.missing || c.Records != int64(len(tc.texts)) {
			t.Errorf("%q: kind %d, %d of %d missing; want kind %d, %d missing", tc.texts, c.Kind(), c.Missing, c.Records, tc.kind, tc.missing)
		}
	}
}

// TestFaithful: a column whose narrowest type would change the form of a value is kept as
// text, and still described as numeric.
func TestFaithful(t *testing.T) {
	for _, tc := range []struct {
		texts  []string
		change bool
	}{
		{[]string{"1", "-7", "?"}, false},
		{[]string{"1.0", "52.6", "-0.25", "1e-07"}, false},
		{[]string{"39.0"}, false},
		{[]string{"-0.0"}, false},
		{[]string{"1", "52.6"}, true}, // 1 would become 1.0
		{[]string{"52.60", "52.5"}, true},
		{[]string{"1e3"}, true},
		{[]string{".5"}, true},
		{[]string{"9223372036854775808"}, true},
		{[]string{"0.12345678901234567890"}, true},
	} {
		c := of(tc.texts...)
		if k := c.Kind(); k != value.Int && k != value.Float64 {
			t.Errorf("%q: kind %d is not a number", tc.texts, k)
		}
		if got := c.Faithful() != c.Kind(); got != tc.change || got && c.Faithful() != value.Text {
			t.Errorf("%q: kept as kind %d", tc.texts, c.Faithful())
		}
	}
	for _, tc := range []struct {
		texts []string
		kind  value.Kind
	}{
		{[]string{"inf", "0.5", "-inf"}, value.Float64},
		{[]string{"inf", "1"}, value.Text},
		{[]string{"inf", "nan"}, value.Text}, // strings, as far as can be seen
		{[]string{"Infinity", "0.5"}, value.Text},
	} {
		if c := of(tc.texts...); c.Faithful() != tc.kind || c.Kind() != value.Text {
			t.Errorf("%q: kept as kind %d", tc.texts, c.Faithful())
		}
	}
	c := New(nil)
	c.Add(&value.List{Kind: value.Float32, Reals: []float64{float64(float32(0.1))}})
	if c.Faithful() != value.Float64 {
		t.Error("a number that was none of text is kept as text")
	}
}

// TestForms: each value counts in one form, of which the first is kept.
func TestForms(t *testing.T) {
	c := of("1", "007", "9223372036854775808", "0.5", "52.60", "nan", "true", "2024-05-01 10:00:00", "12:34:56", "2024-05-1", "?")
	want := [forms]Seen{{1, "1"}, {1, "007"}, {1, "9223372036854775808"}, {1, "0.5"}, {1, "52.60"}, {1, "nan"}, {1, "true"}, {2, "2024-05-01 10:00:00"}, {1, "2024-05-1"}}
	if c.Forms != want || c.Texts() != 5 || c.IsNumeric() {
		t.Errorf("%+v, %d texts", c.Forms, c.Texts())
	}
	if !of("0.5", "inf").IsNumeric() || of("inf").IsNumeric() || of("0.5", "007").IsNumeric() {
		t.Error("numbers, of which one is infinite, are a column of numbers; codes and words are not")
	}
}

func TestNumbers(t *testing.T) {
	c := of("-3", "?", "0.5", "x", "4")
	if c.Min != -3 || c.Max != 4 || c.Sum() != 1.5 || c.Mean() != 0.5 || c.Numbers() != 3 || distinct(c) != 4 {
		t.Errorf("min %v, max %v, sum %v, mean %v of %d numbers, %d distinct", c.Min, c.Max, c.Sum(), c.Mean(), c.Numbers(), distinct(c))
	}
	if c := of("5", "7"); c.Min != 5 {
		t.Errorf("the least of 5 and 7 is %v", c.Min)
	}
	if c := of("x"); !math.IsNaN(c.Mean()) {
		t.Errorf("the mean of no number is %v", c.Mean())
	}
}

func TestLists(t *testing.T) {
	c := New(nil)
	c.Add(&value.List{Kind: value.Int, Ints: []int64{1, 2, 3}})
	c.Add(&value.List{})
	c.Add(&value.List{Kind: value.Float32, Reals: []float64{0.5}})
	if c.Most != 3 || c.Values != 4 || c.Missing != 1 || c.Kind() != value.Float64 || c.Max != 3 {
		t.Errorf("%+v", c.Values)
	}
}

func distinct(c *Column) int64 {
	n, _ := c.Distinct()
	return n
}

// TestDistinct: few values are counted exactly, many are estimated within 4 standard
// errors, 1.04/√registers.
func TestDistinct(t *testing.T) {
	for _, n := range []int{0, 1, 2, 10, 100, 1000, 1024, 1025, 30_000, 50_000, 300_000} {
		c := New(nil)
		var l value.List
		for i := range 2 * n {
			l.SetText(fmt.Appendf(nil, "value %d", i%n))
			c.Add(&l)
		}
		count, exact := c.Distinct()
		if exact != (n <= maxCounted) {
			t.Errorf("%d distinct values are exact: %v", n, exact)
		}
		got, most := float64(count), 4*1.04/math.Sqrt(registers)
		if exact && count != int64(n) || math.Abs(got-float64(n)) > most*float64(n) {
			t.Errorf("%v distinct values of %d", got, n)
		}
	}
}

func TestAddAllocatesNothing(t *testing.T) {
	for _, s := range []string{"ab12", "12", "12.5"} {
		c, l := New([]string{"?"}), value.List{}
		l.SetText([]byte(s))
		c.Add(&l)
		if n := testing.AllocsPerRun(100, func() { c.Add(&l) }); n != 0 {
			t.Errorf("%s: %v allocations", s, n)
		}
	}
}

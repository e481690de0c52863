package date

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// TestPatterns: the usual ways to write a date are recognised, and nothing else.
func TestPatterns(t *testing.T) {
	for text, want := range map[string]string{
		"03/11/2024":                  "%m/%d/%Y|%d/%m/%Y",
		"3/11/2024 4:05":              "%m/%d/%Y %H:%M|%d/%m/%Y %H:%M",
		"13/11/2024 14:05":            "%d/%m/%Y %H:%M",
		"11/13/2024 2:05:06 PM":       "%m/%d/%Y %I:%M:%S %p",
		"11/13/2024 02:05pm":          "%m/%d/%Y %I:%M%p",
		"03.11.2024":                  "%d.%m.%Y|%m.%d.%Y",
		"23.11.2024, 14:05":           "%d.%m.%Y, %H:%M",
		"23-11-2024T14:05:06.25Z":     "%d-%m-%YT%H:%M:%S.%f%z",
		"2024/11/03 14:05:06":         "%Y/%m/%d %H:%M:%S",
		"2024.11.03":                  "%Y.%m.%d",
		"03/Nov/2024:14:05:06 +0000":  "%d/%b/%Y:%H:%M:%S %z",
		"3-nov-24":                    "%d-%b-%y",
		"Nov 3, 2024 14:05 UTC":       "%b %d, %Y %H:%M %z",
		"31/12/24":                    "%d/%m/%y|%y/%m/%d",
		"10/11/12":                    "%m/%d/%y|%d/%m/%y|%y/%m/%d",
		"03/11/2024 14:05:06 +02:00":  "%m/%d/%Y %H:%M:%S %z|%d/%m/%Y %H:%M:%S %z",
		" 03/11/2024 ":                "%m/%d/%Y|%d/%m/%Y",
		"2024-11-03":                  "",
		"20241103":                    "",
		"10.0.0.1":                    "",
		"1.20.3":                      "",
		"32/13/2024":                  "",
		"30.02.2024":                  "",
		"03/11/2024 25:05":            "",
		"03/11/2024 nine":             "",
		"03/11/2024 14:05 ":           "%m/%d/%Y %H:%M|%d/%m/%Y %H:%M",
		"03/Mix/2024":                 "",
		"a/b/c":                       "",
		"1,2,03":                      "",
		"12 34 56":                    "",
		"%d/%m/%Y":                    "",
		"":                            "",
		"555-12-2024-1":               "",
		"03/11/2024 14:05:06 Nowhere": "",
	} {
		if got := strings.Join(Patterns(text), "|"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestPatternsReadBack: a date in any of the usual layouts gets a pattern that reads it.
func TestPatternsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		layout := rapid.SampledFrom([]string{"02/01/2006", "1/2/2006", "02.01.2006", "2006/01/02", "02/Jan/2006", "Jan 2, 2006", "02-Jan-06"}).Draw(t, "date") +
			rapid.SampledFrom([]string{" 15:04", " 15:04:05", " 3:04:05 PM", ":15:04:05 -0700", " 15:04:05.000Z07:00"}).Draw(t, "time")
		at := time.Unix(rapid.Int64Range(0, 3e9).Draw(t, "seconds"), 0).UTC()
		want, err := time.Parse(layout, at.Format(layout))
		fatal.If(t, err)
		for _, p := range Patterns(at.Format(layout)) {
			f, err := NewFormat(p)
			fatal.If(t, err)
			if s, ok := f.Seconds([]byte(at.Format(layout))); ok && s == want.Unix() {
				return
			}
		}
		t.Fatalf("%q: no pattern of %q reads it back", at.Format(layout), Patterns(at.Format(layout)))
	})
}

// FuzzPatterns: every pattern reads the text that it was made of.
func FuzzPatterns(f *testing.F) {
	f.Add("03/Nov/2024:14:05:06 +0000")
	f.Add("11/03/2024 2:05 PM")
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range Patterns(text) {
			if x, err := NewFormat(p); err != nil {
				t.Fatal(err)
			} else if _, ok := x.Seconds([]byte(text)); !ok {
				t.Fatalf("%s does not read %q", p, text)
			}
		}
	})
}

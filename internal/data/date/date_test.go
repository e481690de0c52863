package date

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

func TestSeconds(t *testing.T) {
	at := func(s string) int64 {
		x, err := time.Parse(time.RFC3339, s)
		fatal.If(t, err)
		return x.Unix()
	}
	noon := at("2014-10-21T12:30:15Z")
	for _, x := range []struct {
		format, text string
		want         int64
	}{
		{ISO, "2014-10-21", at("2014-10-21T00:00:00Z")}, {ISO, "2014-10-21T12:30:15", noon}, {ISO, "2014-10-21 12:30:15.999", noon},
		{ISO, "2014-10-21T14:30:15+02:00", noon}, {ISO, "2014-10-21T04:00:15-0830", noon}, {ISO, "2014-10-21 12:30:15,5 UTC", noon},
		{ISO, " 2014-10-21 12:30Z ", noon - 15}, {ISO, "2014-10-21T13+01", noon - 1815}, {ISO, "1969-12-31T23:59:59Z", -1},
		{ISO, "2016-02-29", at("2016-02-29T00:00:00Z")}, {ISO, "0001-01-01", minSeconds}, {ISO, "9999-12-31T23:59:59Z", maxSeconds},
		{Unix, "1413894615", noon}, {Unix, "1413894615.75", noon}, {Unix, "1.413894615e9", noon}, {Unix, "-1", -1}, {Unix, "-0.5", -1}, {Unix, "0", 0},
		{UnixMilli, "1413894615999", noon}, {UnixMicro, "1413894615999999", noon}, {UnixNano, "1413894615999999999", noon}, {UnixMilli, "-1", -1},
		{"%y%m%d%H", "14102112", noon - 1815}, {"%y%m%d%H", "69010100", at("1969-01-01T00:00:00Z")}, {"%y%m%d%H", "68010100", at("2068-01-01T00:00:00Z")},
		{"%Y%m%d", "20141021", at("2014-10-21T00:00:00Z")}, {"%d/%b/%Y:%H:%M:%S %z", "21/Oct/2014:14:30:15 +0200", noon},
		{"%m/%d/%Y %I:%M:%S %p", "10/21/2014 12:30:15 PM", noon}, {"%m/%d/%Y %I:%M %p", "1/1/1970 12:00 am", 0},
		{"%m/%d/%Y %H:%M", "10/21/2014 9:05", at("2014-10-21T09:05:00Z")}, {"%Y-%m-%dT%H:%M:%S.%fZ", "2014-10-21T12:30:15.25Z", noon}, {"100%% %Y%m%d", "100% 19700101", 0},
	} {
		f, err := NewFormat(x.format)
		fatal.If(t, err)
		if got, ok := f.Seconds([]byte(x.text)); !ok || got != x.want {
			t.Errorf("%s of %q is %d, %v, want %d", x.format, x.text, got, ok, x.want)
		}
	}
}

func TestWhatIsNoDate(t *testing.T) {
	for format, texts := range map[string][]string{
		ISO: {"", " ", "2014", "2014-10", "2014-13-01", "2014-02-29", "2014-10-32", "2014-10-21T", "2014-10-21T24:00:00", "2014-10-21T12:60", "2014-10-21T12:30:15.",
			"2014-10-21T12:30:15+", "2014-10-21T12:30:15+2", "2014-10-21 noon", "2014-10-21Z", "14-10-21", "0000-01-01", "2014/10/21", "2014-10-21T12:30:15ZZ", "2014-10-21T12:30+25:00"},
		Unix:                   {"", "-", ".", "x", "1e", "1e99", "12a", "99999999999999999999", "253402300800", "nan", "0x10", "1_0"},
		"%y%m%d%H":             {"1410210", "141021000", "14132100", "14102124", "14103200", "x4102100"},
		"%m/%d/%Y %I:%M %p":    {"10/21/2014 0:30 PM", "10/21/2014 13:30 PM", "10/21/2014 1:30", "10/21/2014 1:30 XM"},
		"%d/%b/%Y:%H:%M:%S %z": {"21/Okt/2014:14:30:15 +0200", "21/Oct/2014:14:30:15"},
	} {
		f, err := NewFormat(format)
		fatal.If(t, err)
		for _, s := range texts {
			if got, ok := f.Seconds([]byte(s)); ok {
				t.Errorf("%s of %q is %d", format, s, got)
			}
		}
	}
	if _, ok := (Format{}).Seconds([]byte("2014-10-21")); ok {
		t.Error("the zero format reads a date")
	}
	for _, s := range []string{"", "ISO", "seconds", "%Y", "%Y-%m", "%Y-%m-%q", "%Y%m%d%", "%Y%m%d %I", "%Y%m%d %H %I %p"} {
		if _, err := NewFormat(s); err == nil {
			t.Errorf("%q is a format", s)
		}
	}
}

// Every second that ISO 8601 can represent reads back, in any zone.
func TestISOReadsBack(t *testing.T) {
	f, err := NewFormat(ISO)
	fatal.If(t, err)
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Int64Range(0, 4e9).Draw(t, "seconds")
		zone := time.FixedZone("", 60*rapid.IntRange(-14*60, 14*60).Draw(t, "minutes"))
		text := time.Unix(want, 0).In(zone).Format(rapid.SampledFrom([]string{time.RFC3339, "2006-01-02 15:04:05 -0700"}).Draw(t, "layout"))
		if got, ok := f.Seconds([]byte(text)); !ok || got != want {
			t.Fatalf("%q is %d, want %d", text, got, want)
		}
	})
}

func TestGuess(t *testing.T) {
	first := time.Date(2012, 10, 1, 5, 0, 0, 0, time.UTC)
	for want, write := range map[string]func(time.Time) string{
		ISO:        func(x time.Time) string { return x.Format(time.DateTime) },
		Unix:       func(x time.Time) string { return fmt.Sprint(x.Unix()) },
		UnixMilli:  func(x time.Time) string { return fmt.Sprint(x.UnixMilli()) },
		UnixMicro:  func(x time.Time) string { return fmt.Sprint(x.UnixMicro()) },
		UnixNano:   func(x time.Time) string { return fmt.Sprint(x.UnixNano()) },
		"%y%m%d%H": func(x time.Time) string { return x.Format("06010215") },
		"%Y%m%d":   func(x time.Time) string { return x.Format("20060102") }, // of October 2012: the other until day 24
	} {
		tally, err := NewTally("")
		fatal.If(t, err)
		for i := range 40 {
			tally.Add([]byte(write(first.Add(time.Duration(i)*24*time.Hour))), nil)
		}
		tally.Add([]byte("unknown"), nil)
		f, place, ok := tally.Best()
		if !ok || f.String() != want || tally.Read[place] != 40 || tally.Values != 41 {
			t.Errorf("%s is taken for %v, %d of %d values", want, f, tally.Read[place], tally.Values)
		}
	}
	tally, err := NewTally("")
	fatal.If(t, err)
	for _, s := range []string{"17", "3.5", "-1", "123456789", "99999999", "abc"} {
		tally.Add([]byte(s), nil)
	}
	if f, _, ok := tally.Best(); ok {
		t.Errorf("counters are taken for %v", f)
	}
}

// A clock agrees with the library.
func TestClock(t *testing.T) {
	for _, name := range []string{"", "+05:30", "-0330", "Europe/Berlin", "America/New_York"} {
		zone, err := Zone(name)
		if err != nil {
			t.Skip(err) // a host without time zones
		}
		c := NewClock(zone)
		rapid.Check(t, func(t *rapid.T) {
			s := rapid.Int64Range(minSeconds, maxSeconds).Draw(t, "seconds")
			want := time.Unix(s, 0).In(zone)
			if c.Hour(s) != want.Hour() || c.Weekday(s) != (int(want.Weekday())+6)%7 || c.Month(s) != int(want.Month())-1 {
				t.Fatalf("%v is hour %d, weekday %d, month %d", want, c.Hour(s), c.Weekday(s), c.Month(s))
			}
		})
		if n := testing.AllocsPerRun(100, func() { c.Hour(1413894615) }); n != 0 {
			t.Errorf("hour of %s allocates %v times", name, n)
		}
	}
	for _, name := range []string{"Local", "Europe/Atlantis", "+2", "+25:00", "+02:00x", "../../etc/passwd"} {
		if _, err := Zone(name); err == nil {
			t.Errorf("%q is a zone", name)
		}
	}
}

func TestSecondsAllocatesNothing(t *testing.T) {
	tally, err := NewTally("")
	fatal.If(t, err)
	for _, s := range []string{"2014-10-21T12:30:15+02:00", "1413894615", "14102112", "no date", "1.5e9", "1413894615x"} {
		b := []byte(s)
		if n := testing.AllocsPerRun(100, func() { tally.Add(b, nil) }); n != 0 {
			t.Errorf("%q allocates %v times", s, n)
		}
	}
}

func FuzzSeconds(f *testing.F) {
	for _, s := range []string{"2014-10-21T12:30:15.5+02:00", "1413894615", "14102112", "1e9", "21/Oct/2014:14:30:15 +0200"} {
		f.Add("%d/%b/%Y:%H:%M:%S %z", s)
	}
	f.Add("%%%I%p%Y%m%d%f", "%12PM201410215")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		formats := Guesses()
		if p, err := NewFormat(pattern); err == nil {
			formats = append(formats, p)
		}
		for _, x := range formats {
			if n, ok := x.Seconds([]byte(s)); ok && (n < minSeconds-86400 || n > maxSeconds+86400) {
				t.Fatalf("%v of %q is %d", x, s, n)
			}
		}
	})
}

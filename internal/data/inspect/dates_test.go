package inspect

import (
	"fmt"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/datatest"
)

// TestDates: dates are found by their values, Unix times by the name as well.
func TestDates(t *testing.T) {
	begin := time.Date(2014, 10, 21, 0, 0, 0, 0, time.UTC)
	hourly := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Hour) }
	mixed := func(i int) time.Time { return hourly(i * 7919 % 300 * 24) }
	early := func(i int) time.Time { return time.Date(2014, time.Month(1+i/12), 1+i%12, 0, 0, 0, 0, time.UTC) } // days 1 to 12
	for name, x := range map[string]struct {
		header string
		value  func(i int) string
		want   Dates
	}{
		"hours of a log": {"hour", func(i int) string { return hourly(i).Format("06010215") }, Dates{Format: "%y%m%d%H", Hours: true, Days: 8, Ordered: true}},
		"days":           {"joined", func(i int) string { return mixed(i).Format("20060102") }, Dates{Format: "%Y%m%d", Hours: false, Days: 299, Ordered: false}},
		"texts":          {"when", func(i int) string { return hourly(-i).Format(time.RFC3339) }, Dates{Format: "iso", Hours: true, Days: 8, Ordered: false}},
		"unix":           {"created_at", func(i int) string { return fmt.Sprint(hourly(i).Unix()) }, Dates{Format: "unix", Hours: true, Days: 8, Ordered: true}},
		"milliseconds":   {"ts", func(i int) string { return fmt.Sprint(hourly(i).UnixMilli()) }, Dates{Format: "unix_ms", Hours: true, Days: 8, Ordered: true}},
		"numbers":        {"phone", func(i int) string { return fmt.Sprint(hourly(i).Unix()) }, Dates{}},
		"identifiers":    {"shop", func(i int) string { return fmt.Sprint(20000000 + i*7919%100*8123) }, Dates{}},
		"day first":      {"when", func(i int) string { return hourly(i * 7919 % 700).Format("02/01/2006 15:04") }, Dates{Format: "%d/%m/%Y %H:%M", Hours: true, Days: 29}},
		"month first":    {"when", func(i int) string { return mixed(i).Format("1/2/2006") }, Dates{Format: "%m/%d/%Y", Days: 299}},
		"dotted":         {"when", func(i int) string { return mixed(i).Format("02.01.2006") }, Dates{Format: "%d.%m.%Y", Days: 299}},
		"nginx":          {"when", func(i int) string { return hourly(i).Format("02/Jan/2006:15:04:05 -0700") }, Dates{Format: "%d/%b/%Y:%H:%M:%S %z", Hours: true, Days: 8, Ordered: true}},
		"early days":     {"when", func(i int) string { return early(i * 7919 % 144).Format("01/02/2006") }, Dates{Format: "%m/%d/%Y", Or: "%d/%m/%Y", Days: 345}},
		"order decides":  {"when", func(i int) string { return early(i * 144 / 200).Format("02/01/2006") }, Dates{Format: "%d/%m/%Y", Days: 345, Ordered: true}},
		"two formats":    {"when", func(i int) string { return hourly(i * 24).Format([]string{"02.01.2006", "2006-01-02"}[i/150]) }, Dates{Mixed: "%d.%m.%Y in 75 % of the values, iso in 25 % of the values"}},
		"addresses":      {"ip", func(i int) string { return fmt.Sprintf("10.1.%d.%d", i%12, i%28) }, Dates{}},
		"some dates":     {"when", func(i int) string { return []string{"2014-10-21", "soon"}[i%2] }, Dates{}},
	} {
		in, err := First(datatest.Write(t, "x.csv", tableOf(x.header+",click\n", 200, func(i int) string { return fmt.Sprintf("%s,%d", x.value(i), i*31%7%2) })), 0)
		if err != nil || in.Columns[0].Dates != x.want {
			t.Errorf("%s: %+v, %v; want %+v", name, in.Columns[0].Dates, err, x.want)
		}
	}
}

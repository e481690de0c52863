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
	for name, x := range map[string]struct {
		header string
		value  func(i int) string
		want   Dates
	}{
		"hours of a log": {"hour", func(i int) string { return hourly(i).Format("06010215") }, Dates{"%y%m%d%H", true, 8, true}},
		"days":           {"joined", func(i int) string { return mixed(i).Format("20060102") }, Dates{"%Y%m%d", false, 299, false}},
		"texts":          {"when", func(i int) string { return hourly(-i).Format(time.RFC3339) }, Dates{"iso", true, 8, false}},
		"unix":           {"created_at", func(i int) string { return fmt.Sprint(hourly(i).Unix()) }, Dates{"unix", true, 8, true}},
		"milliseconds":   {"ts", func(i int) string { return fmt.Sprint(hourly(i).UnixMilli()) }, Dates{"unix_ms", true, 8, true}},
		"numbers":        {"phone", func(i int) string { return fmt.Sprint(hourly(i).Unix()) }, Dates{}},
		"identifiers":    {"shop", func(i int) string { return fmt.Sprint(20000000 + i*7919%100*8123) }, Dates{}},
		"some dates":     {"when", func(i int) string { return []string{"2014-10-21", "soon"}[i%2] }, Dates{}},
	} {
		in, err := First(datatest.Write(t, "x.csv", tableOf(x.header+",click\n", 200, func(i int) string { return fmt.Sprintf("%s,%d", x.value(i), i*31%7%2) })), 0)
		if err != nil || in.Columns[0].Dates != x.want {
			t.Errorf("%s: %+v, %v; want %+v", name, in.Columns[0].Dates, err, x.want)
		}
	}
}

package inspect

import (
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/date"
)

// Dates is what the dates of a column look like.
type Dates struct {
	Format  string // as a feature's format names it; "": the column holds no dates
	Hours   bool   // of different hours
	Days    int    // between the first and the last
	Ordered bool   // the records are in their order, as those of a log are
}

// Of dates, and of neighbours in order, at least so many of a hundred are.
const mostDates = 95

// datesOf looks for dates. Numbers that may be Unix times are those of a column whose name
// says so; other formats are found by the values alone.
func datesOf(name string, all cells) (d Dates) {
	seen, err := date.NewTally("")
	if err != nil || len(all.values) < mostExamples {
		return d
	}
	type times struct{ first, last, previous, inOrder, ofDay int64 }
	of := make([]times, len(seen.Read))
	for _, s := range all.values {
		seen.Add([]byte(s), func(format int, t int64) {
			x := &of[format]
			if seen.Read[format] == 1 {
				*x = times{first: t, last: t, previous: t, ofDay: t % 86400}
			}
			if x.first, x.last = min(x.first, t), max(x.last, t); t >= x.previous {
				x.inOrder++
			}
			if t%86400/3600 != x.ofDay/3600 {
				x.ofDay = -1
			}
			x.previous = t
		})
	}
	f, i, ok := seen.Best()
	unix := strings.HasPrefix(f.String(), date.Unix)
	if !ok || 100*seen.Read[i] < mostDates*seen.Values || unix && !IsTimeName(name) && !IsHourName(name) {
		return Dates{}
	}
	return Dates{
		Format: f.String(), Hours: of[i].ofDay < 0, Days: int((of[i].last - of[i].first) / 86400),
		Ordered: 100*of[i].inOrder >= mostDates*seen.Read[i] && of[i].last > of[i].first,
	}
}

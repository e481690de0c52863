package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/date"
)

// Dates describes the dates of a column.
type Dates struct {
	Format  string // as in Feature.Format; "" if the column contains no dates, or mixed ones
	Or      string // another format that reads the same values, such as with day and month exchanged
	Mixed   string // the formats that the column mixes, with their shares; "" if one suffices
	Hours   bool   // the dates have different hours
	Days    int    // from the first to the last
	Ordered bool   // the records are in time order, as in a log
}

// Minimum percentage of dates among values, and of neighbours in order.
const maxDates = 95

// times summarises the dates that one format reads.
type times struct{ first, last, previous, inOrder, ofDay, n int64 }

func (x *times) add(t int64) {
	if x.n++; x.n == 1 {
		*x = times{first: t, last: t, previous: t, ofDay: t % 86400, n: 1}
	}
	if x.first, x.last = min(x.first, t), max(x.last, t); t >= x.previous {
		x.inOrder++
	}
	if t%86400/3600 != x.ofDay/3600 {
		x.ofDay = -1
	}
	x.previous = t
}

func (x *times) ordered() bool { return 100*x.inOrder >= maxDates*x.n && x.last > x.first }

// datesOf looks for dates. Numbers that may be Unix times count only if the name of the
// column suggests it; other formats are found by the values.
func datesOf(name string, all cells) (d Dates) {
	if len(all.values) < maxExamples {
		return d
	}
	seen := date.NewTallyOf(all.values)
	of, sets := make([]times, len(seen.Read)), map[uint32]int{} // values by the set of formats that read them
	for _, s := range all.values {
		var set uint32
		seen.Add([]byte(s), func(format int, t int64) {
			set |= 1 << format
			of[format].add(t)
		})
		sets[set]++
	}
	f, i, ok := seen.Best()
	unix := strings.HasPrefix(f.String(), date.Unix)
	switch {
	case !ok || unix && !IsTimeName(name) && !IsHourName(name):
		return d
	case 100*seen.Read[i] < maxDates*seen.Values:
		if kindOf(all.values) == "string" {
			d.Mixed = mixture(seen, sets, len(all.values))
		}
		return d
	}
	for j := len(date.Guesses()); j < len(of); j++ {
		if j == i || seen.Read[j] < seen.Read[i] || !sameValues(sets, i, j) {
			continue
		}
		switch a, b := of[i].ordered(), of[j].ordered(); {
		case a == b:
			d.Or = seen.Format(j).String()
		case b:
			i = j
		}
	}
	d.Format, d.Hours, d.Days, d.Ordered = seen.Format(i).String(), of[i].ofDay < 0, int((of[i].last-of[i].first)/86400), of[i].ordered()
	return d
}

// sameValues reports whether two formats read the same values.
func sameValues(sets map[uint32]int, i, j int) bool {
	for set := range sets {
		if set>>i&1 != set>>j&1 {
			return false
		}
	}
	return true
}

// mixture lists the formats that together read nearly all of n values, the most frequent
// first. It returns "" if none do. Each value counts for the first format that reads it.
func mixture(seen *date.Tally, sets map[uint32]int, n int) string {
	var parts []string
	read := 0
	for {
		counts := make([]int, len(seen.Read))
		for set, n := range sets {
			for i := range counts {
				if set>>i&1 == 1 {
					counts[i] += n
				}
			}
		}
		most := slices.Max(counts)
		if most == 0 {
			break
		}
		i := slices.Index(counts, most)
		read += most
		parts = append(parts, fmt.Sprintf("%s in %.3g %% of the values", seen.Format(i), 100*float64(most)/float64(n)))
		for set := range sets {
			if set>>i&1 == 1 {
				delete(sets, set)
			}
		}
	}
	if len(parts) < 2 || 100*read < maxDates*n {
		return ""
	}
	return strings.Join(parts, ", ")
}

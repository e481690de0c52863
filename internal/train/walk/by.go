// Package walk divides growing data into partitions in time, and decides which of them a model is
// trained on next (train -by).
//
//	By          partition columns, or windows of a time field
//	List        the partitions of files
//	NewPlan     which are next, missing, late or older than the model: a pure function
package walk

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// By is the argument of -by.
type By struct {
	Columns []string      // partition columns of the folders; nil: windows of Field
	Field   string        // field of times
	Width   time.Duration // of a window; windows begin at multiples of it since 1970, in UTC
}

// ParseBy parses dt, or dt,hour, or time=1d.
func ParseBy(s string) (b By, err error) {
	field, width, windows := strings.Cut(s, "=")
	if !windows {
		b.Columns = strings.Split(s, ",")
		for i, name := range b.Columns {
			if b.Columns[i] = strings.TrimSpace(name); b.Columns[i] == "" {
				return b, fmt.Errorf("-by %q: name the partition columns, such as dt or dt,hour, or a field of times with the width of its windows, such as time=1d", s)
			}
		}
		return b, nil
	}
	b.Field, b.Width, err = strings.TrimSpace(field), 0, errors.New("")
	width = strings.TrimSpace(width)
	if n := len(width); n > 1 && b.Field != "" {
		unit := map[byte]time.Duration{'d': 24 * time.Hour, 'h': time.Hour}[width[n-1]]
		var count int
		if count, err = strconv.Atoi(width[:n-1]); err == nil && count > 0 && count <= 10_000 {
			b.Width = time.Duration(count) * unit
		}
	}
	if err != nil || b.Width <= 0 {
		return b, fmt.Errorf("-by %q: a field of times needs the width of its windows in days or hours: time=1d, time=6h", s)
	}
	return b, nil
}

// String returns the argument.
func (b By) String() string {
	if b.Columns != nil {
		return strings.Join(b.Columns, ",")
	}
	if b.Width%(24*time.Hour) == 0 {
		return fmt.Sprintf("%s=%dd", b.Field, b.Width/(24*time.Hour))
	}
	return fmt.Sprintf("%s=%dh", b.Field, b.Width/time.Hour)
}

// Name returns a partition as messages name it.
func (b By) Name(day string) string {
	if b.Columns == nil {
		return day
	}
	values := strings.SplitN(day, "/", len(b.Columns))
	for i := range values {
		values[i] = b.Columns[i] + "=" + values[i]
	}
	return strings.Join(values, "/")
}

// layouts are the forms of dates that partition columns have, joined by slashes.
var layouts = []struct {
	layout string
	next   func(time.Time) time.Time
}{
	{"2006-01-02", day}, {"20060102", day}, {"2006/1/2", day},
	{"2006-01-02/15", hour}, {"20060102/15", hour}, {"2006/1/2/15", hour},
	{"2006-01-02-15", hour}, {"2006-01-02T15", hour}, {"2006-01-02 15", hour}, {"2006010215", hour},
	{"2006-01-02T15:04:05", hour}, {"2006-01-02 15:04:05", hour},
	{"2006-01", month}, {"200601", month}, {"2006/1", month},
}

func day(t time.Time) time.Time   { return t.AddDate(0, 0, 1) }
func hour(t time.Time) time.Time  { return t.Add(time.Hour) }
func month(t time.Time) time.Time { return t.AddDate(0, 1, 0) }

// order is how values of partitions are ordered: as dates of a layout, or as numbers.
type order struct {
	layout string
	next   func(time.Time) time.Time // end of a partition; nil: numbers
}

// orderOf returns the order of values, and an error if they have none in common.
func (b By) orderOf(values []string) (o order, err error) {
	if b.Columns == nil {
		return order{windowLayout, func(t time.Time) time.Time { return t.Add(b.Width) }}, nil
	}
	most, other := 0, ""
	try := func(candidate order) {
		n, bad := 0, ""
		for _, v := range values {
			if _, ok := candidate.at(v); ok {
				n++
			} else if bad == "" {
				bad = v
			}
		}
		if n > most {
			o, most, other = candidate, n, bad
		}
	}
	for _, l := range layouts {
		try(order{l.layout, l.next})
	}
	try(order{})
	switch {
	case most == 0:
		return o, fmt.Errorf("%s is neither a date, such as 2026-11-22 or 2026112205, nor a number, so it has no order in time: name another column with -by", b.Name(values[0]))
	case most < len(values):
		return o, fmt.Errorf("%s is not a date or number like the other partitions: rename its folder, or exclude it from data.train", b.Name(other))
	}
	return o, nil
}

// at returns the place of a value in the order, in Unix seconds if it is a date.
func (o order) at(v string) (int64, bool) {
	if o.next == nil {
		n, err := strconv.ParseInt(v, 10, 64)
		return n, err == nil
	}
	t, err := time.Parse(o.layout, v)
	return t.Unix(), err == nil
}

// end returns the end of the event time of a value; 0 if it is no date.
func (o order) end(v string) int64 {
	if o.next == nil {
		return 0
	}
	t, _ := time.Parse(o.layout, v)
	return o.next(t).Unix()
}

// between returns the first dates that are missing between two values, at most most, and how many
// are missing. Numbers may have gaps.
func (o order) between(a, b string, most int) (missing []string, n int) {
	if o.next == nil {
		return nil, 0
	}
	from, _ := time.Parse(o.layout, a)
	to, _ := time.Parse(o.layout, b)
	const limit = 100_000
	for t := o.next(from); t.Before(to) && n < limit; t = o.next(t) {
		if n++; n <= most {
			missing = append(missing, t.Format(o.layout))
		}
	}
	return missing, n
}

package data

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/stats"
	tables "github.com/wdlrun/wdlrun/internal/data/table"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/data/write"
)

// change is a way in which a format has some values of a field in another form than they were read.
type change struct {
	Field  string `json:"field"`
	Values int64  `json:"values"` // number of them, or of records whose list has no value
	How    string `json:"how"`
}

// origin is where the values of a column come from.
type origin struct {
	tables.Declared
	lines   bool   // fields of lines, which are texts
	decided bool   // a configuration lists the words that mean missing
	escaped *int64 // bytes that are written as \x00\xFF; nil: the column has none
}

// changesOf returns the changes of form of a column's values in a format. The caller sets their Field.
func changesOf(format string, col *write.Column, seen *stats.Column, from origin) (all []change) {
	add := func(n int64, how string, args ...any) {
		if n > 0 {
			all = append(all, change{Values: n, How: fmt.Sprintf(how, args...)})
		}
	}
	lines, pairs := isLines(format), strings.HasPrefix(format, "lib")
	if !col.Words && !from.decided {
		for _, word := range slices.Sorted(maps.Keys(seen.Words)) {
			add(seen.Words[word], "%q is missing; to decide otherwise: -config FILE with data.missing", word)
		}
	}
	if !from.lines {
		add(seen.Empty, `"" is %s`, map[bool]string{true: "missing", false: "null"}[lines || pairs])
	}
	switch {
	case pairs:
		add(seen.Forms[stats.Limit].N, "NaN and infinities are missing")
		add(seen.Forms[stats.Respelt].N, "numbers lose their form: %s", seen.Forms[stats.Respelt].First)
		return all
	case col.Many && lines:
		add(seen.Records-seen.Bare, "lists are texts with | between their values, of which a configuration makes lists with separator: \"|\"")
	case from.lines && !col.Many && seen.Marked*often >= seen.Values:
		add(seen.Marked, "texts with | are no lists; in a configuration, keep separator: \"|\"")
	}
	if col.Many {
		add(seen.Bare, "lists without a value are %s, whether they were empty or null", map[bool]string{true: "missing", false: "null"}[lines])
	}
	if from.escaped != nil {
		add(*from.escaped, `bytes that are not UTF-8 are written as \x00\xFF`)
	}
	if from.Zone != "" {
		add(seen.Values, "times are in UTC, without the name of their zone, %s", from.Zone)
	}
	if lines {
		return all
	}
	if n, how := typeChange(format, col, seen, from); n > 0 {
		add(n, "%s", how)
	}
	return all
}

// often makes a fifth of the values the least share that is worth a line.
const often = 5

// typeChange returns how many values of a column a format with types has in another type, and why.
func typeChange(format string, col *write.Column, seen *stats.Column, from origin) (n int64, how string) {
	f := &seen.Forms
	switch text := col.Kind == value.Text; {
	case col.Time != (write.Time{}):
		return 0, ""
	case from.Type == "DECIMAL" && text && format != "tfrecord":
		return seen.Values, "decimals are texts, with all digits"
	case from.Type == "DECIMAL" && format != "tfrecord":
		return seen.Values, "decimals are numbers of 64 bits"
	case from.Type != "" && write.IsPackedInside(format) && declaredChange(from.Type) != "" && text:
		return seen.Values, declaredChange(from.Type)
	case from.Type != "" && from.Type != "UINT64" && from.Type != "DECIMAL":
		return 0, "" // texts, also in the file
	case col.Truth && format == "tfrecord":
		return f[stats.Truth].N, "truth values are the texts true and false"
	case format == "jsonl" && !text:
		return f[stats.Limit].N, "NaN and infinities are texts"
	case !text || col.Truth:
		return 0, ""
	case write.IsPackedInside(format) && f[stats.Time].N == seen.Values:
		return seen.Values, fmt.Sprintf("dates and times are texts, as they were: %s", f[stats.Time].First)
	}
	numbers := seen.Count(stats.Whole, stats.Coded, stats.Huge, stats.Real, stats.Respelt, stats.Limit)
	of := "numbers are texts"
	if n = numbers + f[stats.Truth].N; numbers == 0 {
		of = "truth values are texts"
	} else if f[stats.Truth].N > 0 {
		of = "numbers and truth values are texts"
	}
	return n, of + why(format, seen, numbers > 0)
}

// declaredChange returns in what form formats with types of times have the values that a table declares as
// others; "" if they have the same type.
func declaredChange(declared string) string {
	const unstorable = "some are infinite, before the year 1, too far for nanoseconds, or of another type"
	return map[string]string{
		"DATE": "dates are texts: some are infinite, before the year 1, or of another type", "TIME": "times are texts: 12:34:56.000000001", tables.TypeTimeUTC: "times are texts: 12:34:56.5+00",
		"TIMESTAMP":             "timestamps are texts: " + unstorable,
		tables.TypeTimestampUTC: "timestamps are texts: " + unstorable,
		"INTERVAL":              "intervals are texts: 1 year 2 days 03:00:04.5", "UUID": "UUIDs are texts", tables.TypeBytes: "bytes are texts",
	}[declared]
}

// why returns the reason why the numbers or truth values of a column are written as texts.
func why(format string, seen *stats.Column, numbers bool) string {
	f := &seen.Forms
	first := func(forms ...stats.Form) string {
		for _, x := range forms {
			if f[x].N > 0 {
				return f[x].First
			}
		}
		return ""
	}
	other, whole, part := first(stats.Other, stats.Time), first(stats.Whole), first(stats.Real, stats.Limit)
	truth := first(stats.Truth)
	switch {
	case other != "":
		return fmt.Sprintf(", because there are others, such as %.40q", other)
	case truth != "" && numbers:
		return ", because there are both"
	case f[stats.Huge].N > 0:
		return ", because some integers have more than 64 bits with the sign: " + f[stats.Huge].First
	case f[stats.Coded].N > 0 || f[stats.Respelt].N > 0:
		return ", because some have a form of their own: " + cmp.Or(first(stats.Coded), first(stats.Respelt))
	case format == "tfrecord" && seen.Wide.N > 0:
		return ", because some are not exact in 32 bits: " + seen.Wide.First
	case whole != "" && part != "":
		return fmt.Sprintf(", because integers are next to others: %s, %s", whole, part)
	}
	return ""
}

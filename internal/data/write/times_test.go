package write

import (
	"testing"

	tables "github.com/wdlrun/wdlrun/internal/data/table"
)

// The numbers of texts, computed with Python's datetime; every other text is none of this type.
func TestTimes(t *testing.T) {
	for _, x := range []struct {
		kind, text string
		nanos      bool
		want       int64 // −1: none
	}{
		{typeDate, "1970-01-01", false, 0},
		{typeDate, "2024-02-29", false, 19782},
		{typeDate, "0001-01-01", false, -719162},
		{typeDate, "294247-01-10", false, 106751991},
		{typeDate, "2023-02-29", false, -1},
		{typeDate, "2024-13-01", false, -1},
		{typeDate, "02024-01-01", false, -1},
		{typeDate, "0044-03-15 (BC)", false, -1},
		{typeDate, "infinity", false, -1},
		{typeDate, "", false, -1},
		{typeDate, "2024-1-01", false, -1},
		{typeTime, "12:34:56.5", false, 45296500000},
		{typeTime, "12:34:56.000000001", false, -1},
		{typeTime, "12:34:56.000000001", true, 45296000000001},
		{typeTime, "24:00:00", false, -1},
		{typeTime, "12:34:56.50", false, -1},
		{typeTime, "12:34:56.", false, -1},
		{tables.TypeTimeUTC, "12:34:56+00", false, 45296000000},
		{tables.TypeTimeUTC, "12:34:56", false, -1},
		{typeTimestamp, "1969-12-31 23:59:59.999999", false, -1 << 62}, // one before the epoch, see below
		{typeTimestamp, "2026-11-30 22:05:03.25", false, 1796076303250000},
		{typeTimestamp, "2026-11-30 22:05:03.25+00", false, -1},
		{typeTimestamp, "2026-11-30T22:05:03", false, -1},
		{typeTimestamp, "2026-11-30", false, -1},
		{typeTimestamp, "9999-12-31 00:00:00", true, -1},
		{typeTimestamp, "2026-11-30 22:05:03.000000001", true, 1796076303000000001},
		{tables.TypeTimestampUTC, "2026-11-30 22:05:03.25+00", false, 1796076303250000},
	} {
		got, ok := Time{x.kind, x.nanos}.parse([]byte(x.text))
		if !ok {
			got = -1
		} else if got == -1 {
			got = -1 << 62
		}
		if got != x.want {
			t.Errorf("%s %q: %d, want %d", x.kind, x.text, got, x.want)
		}
	}
}

// A format has a type for all texts of a column, or for none.
func TestTimesOfColumns(t *testing.T) {
	for _, x := range []struct {
		kind, format string
		texts        []string
		want         Time
	}{
		{typeDate, "parquet", nil, Time{Type: typeDate}},
		{typeDate, "avro", []string{"2024-05-01"}, Time{Type: typeDate}},
		{typeDate, "jsonl", []string{"2024-05-01"}, Time{}},
		{typeDate, "arrow", []string{"2024-05-01", "infinity"}, Time{}},
		{typeTimestamp, "arrow", []string{"2024-05-01 00:00:00", "2024-05-01 00:00:00.000000001"}, Time{typeTimestamp, true}},
		{typeTimestamp, "arrow", []string{"9999-12-31 00:00:00", "2024-05-01 00:00:00.000000001"}, Time{}},
		{typeTime, "avro", []string{"00:00:00.000000001"}, Time{}},
		{typeTime, "parquet", []string{"00:00:00.000000001"}, Time{typeTime, true}},
		{tables.TypeTimeUTC, "arrow", []string{"00:00:00+00"}, Time{}},
		{tables.TypeTimeUTC, "parquet", []string{"00:00:00+00"}, Time{Type: tables.TypeTimeUTC}},
		{"DECIMAL", "parquet", nil, Time{}},
		{"", "parquet", nil, Time{}},
	} {
		s := Times{Type: x.kind}
		for _, text := range x.texts {
			s.Add([]byte(text))
		}
		if got := s.In(x.format); got != x.want {
			t.Errorf("%s %q in %s: %+v, want %+v", x.kind, x.texts, x.format, got, x.want)
		}
	}
}

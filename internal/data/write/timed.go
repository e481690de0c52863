package write

import tables "github.com/wdlrun/wdlrun/internal/data/table"

// Times examines the texts of a column that tables store as dates or times.
type Times struct {
	Type                 string // as in Time; others fit no format
	texts, micros, nanos int64  // texts, and those that a Time without and with Nanos holds
}

// Add adds a text.
func (s *Times) Add(text []byte) {
	s.texts++
	if _, ok := (Time{s.Type, false}).parse(text); ok {
		s.micros++
	}
	if _, ok := (Time{s.Type, true}).parse(text); ok {
		s.nanos++
	}
}

// In returns the Time with which a format holds all texts that were added; the zero Time if there is none.
func (s *Times) In(format string) Time {
	t := Time{Type: s.Type}
	switch {
	case s.Type != typeDate && s.Type != typeTime && s.Type != tables.TypeTimeUTC && s.Type != typeTimestamp && s.Type != tables.TypeTimestampUTC,
		!IsPackedInside(format), s.Type == tables.TypeTimeUTC && format != "parquet":
		return Time{}
	case s.micros == s.texts:
		return t
	case s.nanos == s.texts && !(format == "avro" && t.clock()):
		t.Nanos = true
		return t
	}
	return Time{}
}

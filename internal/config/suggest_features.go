package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/wdlrun/wdlrun/internal/data/date"
	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/text/pattern"
)

const (
	maxHours         = 53   // distinct values of a cyclic column: weeks of a year
	vocabularyValues = 1000 // distinct strings: more are hashed, as their number grows with the file
)

func (s *suggestion) featureSection() {
	s.line("\nfeatures:")
	written := 0
	for i := range s.Columns {
		c := &s.Columns[i]
		if i == s.label || i == s.weight {
			continue
		}
		s.column = i
		entries, why := s.entries(i)
		for k, e := range entries {
			note := s.leak(c)
			if k == len(entries)-1 {
				note += s.comment(c)
			}
			s.line("  - %s   # %s%s", e, note, seen(c))
			written++
		}
		if s.rated(i) && len(entries) > 0 && !strings.Contains(entries[len(entries)-1], "encode: rate") {
			s.line("  - %s   # its share of positives and its count; for a training record, counted on other records than its own", s.entry(s.names[i], "rate", ""))
		}
		if len(entries) == 0 {
			s.line("  # - {field: %s, encode: hash}   # %sleft out: %s; %s", text(c.Name), s.commas(c), why, seen(c))
		}
	}
	if s.crosses.Rates.Columns == nil && s.index == "" {
		s.crosses.Rates.Columns = s.ratable()
	}
	if note := s.crosses.Rates.Note; note != "" {
		s.line("  # %s", note)
	}
	for _, field := range s.Unread {
		s.line("  # not read: %s", field)
	}
	for i := range s.Columns {
		if written == 0 && i != s.label && i != s.weight && s.names[i] != "" && s.Columns[i].Distinct > 0 {
			s.line("  - {field: %s, encode: hash}   # CHECK: no better feature was found", text(s.names[i]))
			written++
		}
	}
}

// leak returns a comment about a column that reveals the label, or "".
func (s *suggestion) leak(c *inspect.Column) string {
	if !c.Signal.Leaks() {
		return ""
	}
	return fmt.Sprintf("CHECK: may reveal the label: %s; remove it if it is known only after the event; ", c.Signal)
}

// comment returns a comment about a column on which the user should decide, or "".
func (s *suggestion) comment(c *inspect.Column) string {
	const exact, most = 1 << 53, 1 << 64 // from exact on, floating point numbers skip integers
	exponent := func(s string) bool { return strings.ContainsAny(s, "eE") }
	if size := max(-c.Min, c.Max); c.Kind == "float" && c.Integers && size >= exact && size < most && slices.ContainsFunc(c.Examples, exponent) {
		return "CHECK: integers of 2^53 or more written as floating point numbers, which have lost their last digits; write integers; "
	}
	if c.Dates.Or != "" {
		return fmt.Sprintf("CHECK: day and month cannot be told apart in these rows; the format may be %q instead, in every line of this field; ", c.Dates.Or)
	}
	if strings.ContainsAny(c.Separator, " ,;") {
		return s.list(c)
	}
	if note := s.commas(c); note != "" || c.Dates.Format != "" {
		return note
	}
	if n := codeDigits(c); n > 0 {
		return fmt.Sprintf("CHECK: treated as identifiers, because all have %d digits; ", n)
	}
	if !s.mayName(c) {
		return ""
	}
	if c.Shape == inspect.Identifier {
		return "CHECK: treated as identifiers, because neighbouring numbers have unrelated frequencies; "
	}
	if s.both(c) && c.Likeness >= inspect.SureLikeness {
		return fmt.Sprintf("CHECK: identifiers or amounts? rows of the same number have more similar labels than neighbouring numbers explain (by %.2g standard deviations); if amounts, remove this line; if identifiers, remove the others; ", c.Likeness)
	}
	if s.both(c) {
		return "CHECK: identifiers or amounts? if amounts, remove this line; if identifiers, remove the others; "
	}
	return ""
}

// list returns the comment about lists whose separator also occurs inside single values.
func (s *suggestion) list(c *inspect.Column) string {
	note := fmt.Sprintf("CHECK: treated as lists, because fields are combinations of few values; if a field is one value, remove separator: %q; ", c.Separator)
	if len(c.Examples) > 0 && strings.ContainsAny(c.Examples[0], "[]'\"(){}") {
		note += "write the values without brackets and quotes, because these are part of a value; "
	}
	return note
}

// arriveLater is the reason why a column of files that are followed is left out.
const arriveLater = "its values grow from record to record, so records that arrive later have values outside the range of the index"

// entries returns the features of one column, or the reason why there are none.
func (s *suggestion) entries(i int) (entries []string, why string) {
	c, name := &s.Columns[i], s.names[i]
	if name == "" {
		return nil, s.why[i]
	}
	const enough = 50 // from this many values on, it is significant that all differ
	present := float64(s.Rows) * (1 - c.Missing)
	every := present >= enough && float64(c.Distinct) >= 0.95*present
	if s.Format == "libffm" {
		if entries, why, ok := s.ofIndices(name, c, every); ok {
			return entries, why
		}
	}
	switch {
	case c.Distinct == 0:
		return nil, "it has no values"
	case c.Distinct == 1 && c.Missing == 0:
		return nil, "it has only one value"
	case c.Folder && ofMonths(c):
		return nil, "it is the month of a folder, so records of the next month have a value that training has not seen"
	case c.Dated && c.Dates.Format == "":
		return nil, "it is a part of the date of a folder, and each training of train -by has one value of it"
	case c.Numbers():
		why, size := s.weightsOf(c), c.Vector()
		if why != loneNumbers || size < 2 || c.Separator != "" {
			return nil, why
		}
		e := strings.TrimSuffix(s.entry(name, "vector", ""), "}")
		return []string{fmt.Sprintf("%s, size: %d, standardise: true}", e, size)}, ""
	case c.Many && c.Kind == "int":
		return []string{s.weighted(name, s.weights(name))}, ""
	case c.Dates.Mixed != "":
		return nil, "the field mixes date formats: " + c.Dates.Mixed + "; write all values in one"
	case c.Dates.Format != "" && c.Distinct > 1:
		if entries = s.dates(name, c); len(entries) > 0 {
			return entries, ""
		}
		if c.Folder {
			return nil, "it is the date of a folder, so records of later folders have a value that training has not seen"
		}
		return nil, arriveLater
	case s.index != "" && c.Grows && !inspect.IsIDName(c.Name):
		return nil, arriveLater
	case c.Separator != "" && utf8.ValidString(c.Separator) && c.Kind == "string":
		e := s.entry(name, keysOf(c), c.Separator)
		if c.Pairs != "" {
			e = strings.TrimSuffix(e, "}") + ", pairs: " + text(c.Pairs) + "}"
		}
		return []string{e}, ""
	case c.Kind == "float" && !c.Integers && !inspect.IsIDName(c.Name):
		return s.amount(c, name), ""
	case every && (c.Kind == "string" || inspect.IsIDName(c.Name) || countsRows(c) || codeDigits(c) > 0):
		return nil, "nearly every row has its own value, so it carries no information about new rows"
	case s.mayName(c) && s.both(c):
		keys := keysOf(c)
		if keys == "hash" && s.rated(i) {
			keys = "rate" // it cannot learn rows by heart, as a key of few rows each can
		}
		return append(s.amount(c, name), s.entry(name, keys, "")), ""
	case s.mayName(c) && c.Shape != inspect.Identifier:
		return s.amount(c, name), ""
	case 2*c.Distinct > max(s.Rows, 2*fewValues):
		return []string{s.entry(name, "hash", "")}, ""
	}
	return []string{s.entry(name, keysOf(c), "")}, ""
}

// month matches a month with its year, such as 2026-11 or 202611.
var month = pattern.Lazy(`^(19|20)\d\d[-_]?(0[1-9]|1[0-2])$`)

// ofMonths reports whether the examples of a column are months.
func ofMonths(c *inspect.Column) bool {
	return len(c.Examples) > 0 && !slices.ContainsFunc(c.Examples, func(s string) bool { return !month().MatchString(s) })
}

const loneNumbers = "lists of numbers; they may be the weights of another field"

// weightsOf returns why a column of lists of numbers is no feature. It names the lists that
// are as long in each row: the numbers may be their weights.
func (s *suggestion) weightsOf(c *inspect.Column) string {
	of := -1
	for i := range s.Columns {
		o := &s.Columns[i]
		if o.Numbers() || !o.Many && o.Separator == "" || o.Separator != c.Separator || s.names[i] == "" || !c.LengthsEqual(o) {
			continue
		}
		if of >= 0 {
			return loneNumbers
		}
		of = i
	}
	if of < 0 {
		return loneNumbers
	}
	return fmt.Sprintf("lists of numbers, as many as values of %s in each row; if they are its weights, add weights: %s to that line", oneLine(s.names[of]), text(c.Name))
}

// countsRows reports whether integers that are all different leave few gaps, as row numbers
// do.
func countsRows(c *inspect.Column) bool {
	return c.Integers && c.Max-c.Min < 2*float64(c.Distinct)
}

// amount returns the features of numbers whose order has a meaning.
func (s *suggestion) amount(c *inspect.Column, name string) []string {
	all := []string{s.entry(name, "quantile", ""), s.entry(name, "standardise", "")}
	if c.LongTail {
		all[1] = strings.TrimSuffix(all[1], "}") + ", log: true}"
	}
	return all
}

// dates returns the features of dates. The age of a date is informative unless the records
// are in the order of the date, as the dates of folders are: then all records to be predicted are newer.
func (s *suggestion) dates(name string, c *inspect.Column) (entries []string) {
	d := c.Dates
	const week, year = 7, 366
	add := func(encode string) { entries = append(entries, s.dateEntry(name, encode, d.Format)) }
	if d.Hours {
		add("hour")
	}
	if d.Days >= week {
		add("weekday")
	}
	if d.Days >= year && !d.Hours {
		add("month")
	}
	if !c.Folder && (!d.Ordered || len(entries) == 0 && s.index == "") {
		add("age")
	}
	return entries
}

// dateEntry formats a feature of dates. Training finds the format of dates by itself if it is
// one of date.Guesses.
func (s *suggestion) dateEntry(field, encode, format string) string {
	e := s.entry(field, encode, "")
	if slices.ContainsFunc(date.Guesses(), func(f date.Format) bool { return f.String() == format }) {
		return e
	}
	return strings.TrimSuffix(e, "}") + ", format: " + text(format) + "}"
}

// keysOf returns the encoding of strings. A long list is hashed, since the next file may have
// new values.
func keysOf(c *inspect.Column) string {
	if c.Distinct <= vocabularyValues {
		return "vocabulary"
	}
	return "hash"
}

// mayName reports whether the integers of a column may be identifiers or amounts: there are
// many values, and the name of the column does not tell.
func (s *suggestion) mayName(c *inspect.Column) bool {
	comesRound := inspect.IsHourName(c.Name) && c.Distinct <= maxHours
	return c.Integers && !c.Many && c.Distinct > fewValues && !inspect.IsIDName(c.Name) && !comesRound && codeDigits(c) == 0
}

// codeDigits returns the number of digits of integers that are long and of the same length, such as census tracts,
// article and telephone numbers, whose order has no meaning; 0 for others, and for those that may be Unix times.
func codeDigits(c *inspect.Column) int {
	const long = 10
	digits := len(strconv.FormatFloat(c.Max, 'f', 0, 64))
	if !c.Integers || c.Many || c.Distinct <= fewValues || c.Min <= 0 || digits < long || len(strconv.FormatFloat(c.Min, 'f', 0, 64)) != digits {
		return 0
	}
	const of2000, of2040 = 946684800, 2208988800 // in seconds
	for unit := 1.0; unit <= 1e9; unit *= 1e3 {
		if c.Min >= of2000*unit && c.Max < of2040*unit {
			return 0
		}
	}
	return digits
}

// both reports whether integers are encoded both as amounts and as keys: their meaning is
// unclear, and they predict the label better as keys.
func (s *suggestion) both(c *inspect.Column) bool {
	return s.unclear(c) && s.better(c)
}

// better reports whether the numbers of a column predict the label better as identifiers than as
// amounts. It returns true if there are too few rows to measure it.
func (s *suggestion) better(c *inspect.Column) bool {
	if s.crosses.IDs == nil {
		s.crosses.IDs = map[int]bool{}
		var columns []int
		for i := range s.Columns {
			if x := &s.Columns[i]; i != s.label && i != s.weight && s.mayName(x) && s.unclear(x) {
				columns = append(columns, i)
			}
		}
		gains := s.AsIDs(columns, s.weight)
		for k, i := range columns {
			s.crosses.IDs[i] = gains == nil || gains[k] > 0
		}
	}
	return s.crosses.IDs[s.column] || c.Shape != inspect.Unclear
}

// unclear reports whether the numbers of a column may be amounts or identifiers, and there are enough
// rows of each value, or each value has labels of its own and most future rows have a value seen before.
func (s *suggestion) unclear(c *inspect.Column) bool {
	const each, maxSingle = 5, 0.5 // rows per value; share of the values that occur once
	return c.Shape == inspect.Unclear && (c.Distinct <= vocabularyValues && each*c.Distinct <= s.Rows || c.Likeness >= inspect.SureLikeness && c.Single < maxSingle)
}

// ofIndices returns the features of a field of LibFFM. Indices are not amounts. If the index
// is constant, its values are a number.
func (s *suggestion) ofIndices(name string, c *inspect.Column, every bool) (entries []string, why string, ok bool) {
	if field, isValues := strings.CutSuffix(name, "_values"); isValues {
		if i := s.columnOf(field); i >= 0 && s.Columns[i].Distinct > 1 {
			return nil, "the weights of field " + field, true
		}
		return nil, "", false
	}
	values := ""
	if i := s.columnOf(name + "_values"); i >= 0 {
		values = s.Columns[i].Name
	}
	switch {
	case c.Distinct == 1 && values != "":
		return nil, "its index is constant; " + values + " is its value", true
	case c.Distinct == 1 && c.Missing == 0:
		return nil, "", false
	case every && !c.Many:
		return nil, "nearly every row has its own index, so it carries no information about new rows", true
	}
	return []string{s.weighted(name, values)}, "", true
}

// columnOf returns the index of a column; −1 if there is none.
func (s *suggestion) columnOf(name string) int {
	return slices.IndexFunc(s.Columns, func(c inspect.Column) bool { return c.Name == name })
}

// weighted returns the entry of indices with weights; "" means no weights.
func (s *suggestion) weighted(name, weights string) string {
	e := s.entry(name, "id", "")
	if weights != "" {
		e = strings.TrimSuffix(e, "}") + ", weights: " + text(weights) + "}"
	}
	return e
}

// weights returns the field with the values of LibSVM's indices, or "" if all values are the
// same.
func (s *suggestion) weights(indices string) string {
	for _, c := range s.Columns {
		if s.Format == "libsvm" && indices == "features" && c.Name == "values" && c.Distinct > 1 {
			return c.Name
		}
	}
	return ""
}

// entry formats a feature. It has an explicit name only if its default name belongs to
// another feature.
func (s *suggestion) entry(field, encode, separator string) string {
	how := ", encode: " + encode
	if separator != "" {
		how += ", separator: " + text(separator)
	}
	for _, name := range []string{field, field + "_" + encode} {
		if !s.taken[name] {
			s.taken[name] = true
			s.propose(name, encode, separator)
			return "{field: " + text(field) + how + "}"
		}
	}
	for n := 2; ; n++ {
		name := fmt.Sprintf("%s_%s_%d", field, encode, n)
		if !s.taken[name] && !among(name, s.names) {
			s.taken[name] = true
			s.propose(name, encode, separator)
			return "{name: " + text(name) + ", field: " + text(field) + how + "}"
		}
	}
}

// Times that no format reads: of a clock, and dates with the day of the week, as in mail and HTTP.
var (
	clockTime = pattern.Lazy(`^\d{1,2}:\d\d(:\d\d(\.\d+)?)?( ?[AaPp][Mm])?$`)
	withDay   = pattern.Lazy(`^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? \d{1,2}[ -][A-Z][a-z]{2}[ -]\d{2,4}\b`)
)

// commas returns a comment about strings that are times which no format reads, or numbers with a
// comma as the decimal point. If the comma also separates fields, no short command can correct the
// file.
func (s *suggestion) commas(c *inspect.Column) string {
	all := func(is func(string) bool) bool {
		return len(c.Examples) > 0 && !slices.ContainsFunc(c.Examples, func(e string) bool { return !is(e) })
	}
	switch {
	case all(clockTime().MatchString):
		return "CHECK: times of day are strings: write them as dates with the time, or the hour as a number; "
	case all(withDay().MatchString):
		return "CHECK: dates with the day of the week are strings: write them without it; "
	}
	if c.Marks != "" {
		return fmt.Sprintf("CHECK: numbers written with %q are strings: write them with digits and a point only, then run init again; ", c.Marks)
	}
	for _, e := range c.Examples {
		whole, part, two := strings.Cut(e, ",")
		if _, err := strconv.ParseFloat(whole+"."+part, 64); err != nil || !two || part == "" {
			return ""
		}
	}
	if c.Kind != "string" || len(c.Examples) == 0 {
		return ""
	}
	with := ""
	if (schema.Source{Format: s.Format}).HasLayout() && s.Delimiter != "" && s.Delimiter != "," {
		with = ` (sed -E 's/([0-9]),([0-9])/\1.\2/g' FILE > NEW), then init -data NEW`
	}
	return "CHECK: numbers with a comma are strings; write them with a point" + with + "; "
}

// seen describes a column in a comment.
func seen(c *inspect.Column) string {
	kind := map[string]string{"int": "integers", "float": "numbers"}[c.Kind]
	switch {
	case c.Dates.Format != "":
		kind = "dates (" + c.Dates.Format + ")"
		if c.Dates.Hours {
			kind += ", hours are in UTC unless zone is set"
		}
	case kind == "":
		kind = "strings"
	}
	note := fmt.Sprintf("%s, %d distinct", kind, c.Distinct)
	if c.Folder {
		note = "from the names of folders: " + note
	}
	switch all := c.Missing >= 0.9995; {
	case all && c.Missing < 1:
		note += ", nearly all missing"
	case c.Missing > 0:
		note += fmt.Sprintf(", %.3g %% missing", 100*c.Missing)
	}
	const shown = 3
	for i, e := range c.Examples {
		if i == shown {
			break
		}
		if i == 0 {
			note += ", such as"
		}
		note += " " + quote(strings.ToValidUTF8(e, "?"))
	}
	return note
}

package data

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Inspection is what some records of files look like.
type Inspection struct {
	Path      string
	Names     []string // of the files that were looked at, the first of all first; of a topic, ranges
	Files     int      // that Path names; of a topic, partitions
	All       bool     // every record was looked at
	Format    string   // one of Formats
	Delimiter string
	Header    bool   // the first line names the fields
	Comment   string // mark of lines that are no records, "" if none was seen
	Rows      int    // records that were looked at
	Ragged    int    // lines among them with another number of fields, left out
	Missing   []string
	Columns   []ColumnLook
	Nested    []string // fields of JSON that are objects, lists of such or of lists, which are not read
	Label     string   // column that is likely the label
	Sure      bool     // that it is: its name says so
	Positive  []string // its values that likely mean 1
}

// ColumnLook is what the values of one column look like.
type ColumnLook struct {
	Name     string
	Kind     string   // int, float or string
	Distinct int      // different values, missing ones not counted
	Missing  float64  // share of the records
	Min, Max float64  // of numbers
	Examples []string // the most frequent values, at most five
	// Separator is the mark between several values of one field: "|" or "^",
	// "" if fields hold one each.
	Separator string
	Many      bool // records hold lists of values
}

const (
	defaultLook  = 10000
	mostLook     = 1 << 20
	mostExamples = 5
	sniffLines   = 50 // to find the delimiter
)

// Words that programs write for a missing value.
var missingWords = []string{"?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "\\N", "#N/A"}

// delimiters are those that files have.
var delimiters = []string{",", "\t", ";", "|", " "}

// Inspect looks at rows records (0: 10,000) of a file, or of the first of those that a
// glob or folder holds, and guesses how it is written: delimiter, header, types, label.
// Half of the records are from its beginning and the others from 16 places all over it,
// unless it is packed. The guesses are for a person to check.
func Inspect(path string, rows int) (*Inspection, error) { return inspectSome(path, rows, 1) }

// InspectAll is Inspect of all files that path names, of 16 where there are more. No
// more than half of the records are from the beginning of the first, the others from all
// over it and the other files.
func InspectAll(path string, rows int) (*Inspection, error) {
	return inspectSome(path, rows, mostFiles)
}

func inspectSome(path string, rows, most int) (*Inspection, error) {
	if rows <= 0 {
		rows = defaultLook
	}
	files, err := resolve([]string{path})
	if err != nil {
		return nil, err
	}
	s := newSample(files[:min(len(files), most)], min(rows, mostLook))
	in, err := inspect(path, s)
	if err != nil {
		return nil, err
	}
	in.Files, in.All = len(files), !s.part && len(s.files) == len(files)
	for i := range s.files {
		in.Names = append(in.Names, s.files[i].name)
	}
	return in, nil
}

// inspect looks at files.
func inspect(path string, s *sample) (*Inspection, error) {
	if s.files[0].log != nil {
		return inspectTopic(path, s)
	}
	format, err := s.sniff()
	if err != nil {
		return nil, err
	}
	if format != "" {
		return inspectRecords(path, s, format, newFormat(Source{Format: format}))
	}
	all, err := someLines(s)
	if err != nil {
		return nil, err
	}
	for i, lines := range all {
		if isBinary(lines) {
			return nil, fmt.Errorf("data: inspect: %s is no text: it has zero bytes or many control characters; is it csv or tsv?", s.files[i].name)
		}
	}
	if len(all[0]) > 0 && isJSON(all[0][0]) {
		return nil, fmt.Errorf("data: inspect: %s%s", s.files[0].name, s.files[0].asLines())
	}
	in := &Inspection{Path: path}
	return in, in.inspectLines(s, all)
}

// sniff tells how the files are packed and their format, which is that of the first.
func (s *sample) sniff() (format string, err error) {
	for i := range s.files {
		f := &s.files[i]
		head, err := f.head()
		if err != nil {
			return "", err
		}
		if f.packing, err = packingOf(f.name, head); err != nil {
			return "", err
		}
		seen, err := f.sniff()
		if err != nil {
			return "", err
		}
		if i == 0 {
			format = seen
			if err := f.begin(orText(format)); err != nil {
				return "", err // of a kind that none reads
			}
		} else if seen != format && (NamesFields(seen) || NamesFields(format) && seen != "") {
			return "", fmt.Errorf("data: inspect: %s looks like %s, and %s like %s; name files of one format", s.files[0].name, orText(format), f.name, seen)
		}
	}
	return format, nil
}

func orText(format string) string {
	if format == "" {
		return "csv or tsv"
	}
	return format
}

// inspectLines looks at lines of fields, some of each file.
func (in *Inspection) inspectLines(s *sample, all [][]string) error {
	first := &s.files[0]
	if in.Comment = uncomment(all); len(all[0]) == 0 {
		return fmt.Errorf("data: inspect: %s: there are no records: every line is blank", first.name)
	}
	in.sniffDelimiter(all[0])
	records := in.split(all[0], 0)
	if len(records) == 0 {
		return fmt.Errorf("data: inspect: %s: no two lines have the same number of fields; is it csv or tsv?", first.name)
	}
	header := records[0]
	for i := 1; i < len(all); i++ {
		more := in.split(all[i], len(header))
		if len(more) == 0 && len(all[i]) > 0 {
			return fmt.Errorf("data: inspect: %s: no line that was looked at has %d fields, as those of %s have; name files of one kind", s.files[i].name, len(header), first.name)
		}
		if len(more) > 0 && mayBeHeader(header) && slices.Equal(more[0], header) {
			more = more[1:]
		}
		records = append(records, more...)
	}
	records, names, err := in.named(records)
	if err != nil {
		return fmt.Errorf("data: inspect: %s: %w", first.name, err)
	}
	if in.Header {
		if err := in.oneHeader(s); err != nil {
			return err
		}
		records = records[1:]
	}
	records = records[:min(len(records), s.rows)] // one more was read, for the header
	if in.Rows = len(records); in.Rows == 0 {
		return fmt.Errorf("data: inspect: %s: there is a header and no record", first.name)
	}
	in.columns(names, records)
	in.guessLabel()
	return nil
}

// oneHeader is the error of files whose headers differ, which readers refuse.
func (in *Inspection) oneHeader(s *sample) error {
	d := &Dataset{src: in.Source(), files: s.files}
	d.format = newFormat(d.src)
	for i := range d.files {
		if err := d.look(i); err != nil {
			return err
		}
	}
	return nil
}

// isJSON tells whether the first line of a text begins JSON of some layout.
func isJSON(line string) bool {
	line = strings.TrimSpace(strings.TrimPrefix(line, bom))
	return line == "[" || line == "{" || strings.HasPrefix(strings.TrimLeft(line, "[ "), `{"`)
}

// someLines returns lines of each file that are not blank, those of the first from its
// beginning on.
func someLines(s *sample) ([][]string, error) {
	for i := range s.files {
		if err := s.files[i].begin("csv or tsv"); err != nil {
			return nil, err
		}
	}
	all := make([][]string, len(s.files))
	s.rows++ // for a header
	defer func() { s.rows-- }()
	err := s.units(&textRecords{isRecord: func(line []byte) bool { return len(bytes.TrimSpace(line)) > 0 }}, func(file int, u unit) error {
		all[file] = append(all[file], string(u.record))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("data: inspect: %w", err)
	}
	return all, nil
}

// uncomment takes the comments off the beginnings of files, and returns what marks them.
func uncomment(all [][]string) (mark string) {
	for i, lines := range all {
		m, rest := comments(lines)
		if m == "" || mark != "" && m != mark {
			continue
		}
		others := func(lines []string) bool {
			return slices.ContainsFunc(lines, func(s string) bool { return strings.HasPrefix(s, m) })
		}
		if i > 0 && mark == "" && slices.ContainsFunc(all[:i], others) {
			continue // those are records
		}
		mark, all[i] = m, rest
	}
	return mark
}

// comments takes off the lines at the beginning that start with a mark which no
// later line starts with.
func comments(all []string) (mark string, rest []string) {
	for _, m := range []string{"#", "//", "|", "%"} {
		n := 0
		for n < len(all) && strings.HasPrefix(all[n], m) {
			n++
		}
		if n > 0 && n < len(all) && !slices.ContainsFunc(all[n:], func(s string) bool { return strings.HasPrefix(s, m) }) {
			return m, all[n:]
		}
	}
	return "", all
}

// sniffDelimiter chooses the delimiter that cuts most lines into the same
// number of fields, and of those the one that cuts more often.
func (in *Inspection) sniffDelimiter(all []string) {
	bestSame, bestWidth := -1, 0
	for _, delim := range delimiters {
		format := "csv"
		if delim == "\t" {
			format = "tsv"
		}
		widths := map[int]int{}
		form := newDelimited(Source{Format: format, Delimiter: delim})
		for _, line := range all[:min(len(all), sniffLines)] {
			if fields, fl := form.split([]byte(line), nil); fl == nil && len(fields) > 1 {
				widths[len(fields)]++
			}
		}
		width, same := mode(widths)
		if same > bestSame || same == bestSame && width > bestWidth {
			in.Format, in.Delimiter, bestSame, bestWidth = format, delim, same, width
		}
	}
	if bestWidth == 0 {
		in.Format, in.Delimiter = "csv", "," // one column
	}
}

// mode is the most frequent width, the larger of two that are as frequent.
func mode(widths map[int]int) (width, n int) {
	for w, c := range widths {
		if c > n || c == n && w > width {
			width, n = w, c
		}
	}
	return width, n
}

// split cuts lines into fields and leaves out those of another width, or, where it is 0,
// of another than most.
func (in *Inspection) split(all []string, width int) [][]string {
	form := newDelimited(Source{Format: in.Format, Delimiter: in.Delimiter})
	widths, records := map[int]int{}, make([][]string, 0, len(all))
	for _, line := range all {
		fields, fl := form.split([]byte(line), nil)
		if fl != nil {
			in.Ragged++
			continue
		}
		record := make([]string, len(fields))
		for i, f := range fields {
			record[i] = string(f)
		}
		widths[len(record)]++
		records = append(records, record)
	}
	if width == 0 {
		width, _ = mode(widths)
	}
	n := len(records)
	records = slices.DeleteFunc(records, func(r []string) bool { return len(r) != width })
	in.Ragged += n - len(records)
	return records
}

// named is names, and the records without those that say again what the header says, as
// in joined files.
func (in *Inspection) named(records [][]string) (_ [][]string, names []string, err error) {
	again := func(r []string) bool { return slices.Equal(r, records[0]) }
	once := append(records[:1:1], slices.DeleteFunc(slices.Clone(records[1:]), again)...)
	if names, err = in.names(once); in.Header || len(once) == len(records) {
		return once, names, err
	}
	names, err = in.names(records)
	return records, names, err
}

// names decides whether the first record is a header: no field of it is a
// number or missing, and either some column below is made of numbers or a field
// has the name of a label. All must differ.
func (in *Inspection) names(records [][]string) ([]string, error) {
	first := records[0]
	seen, numbers, twice := map[string]bool{}, false, ""
	for i, s := range first {
		if seen[s] {
			twice = s
		}
		seen[s] = true
		numbers = numbers || IsLabelName(s) || kindOf(valuesOf(records[1:], i)) != "string"
	}
	switch in.Header = mayBeHeader(first) && numbers; {
	case in.Header && twice != "":
		return nil, fmt.Errorf("its header names %s twice; rename one, or if this line is a record, say so with -config FILE (data.header: false)", strconv.Quote(string(cutLong([]byte(twice)))))
	case in.Header:
		return first, nil
	case in.isCriteo(records):
		in.Format = "criteo"
		return CriteoFields(), nil
	}
	names := make([]string, len(first))
	for i := range names {
		names[i] = fmt.Sprintf("column_%d", i+1)
	}
	return names, nil
}

// mayBeHeader tells whether no field of a record is a number, or missing.
func mayBeHeader(record []string) bool {
	return !slices.ContainsFunc(record, func(s string) bool {
		_, why := parseNumber([]byte(s))
		return why == "" || s == "" || slices.Contains(missingWords, s)
	})
}

// isCriteo tells whether the records are laid out as Criteo's logs: a label of 0
// or 1, 13 integers, 26 texts.
func (in *Inspection) isCriteo(records [][]string) bool {
	if in.Delimiter != "\t" || len(records[0]) != len(CriteoFields()) {
		return false
	}
	for i := range 14 {
		values := valuesOf(records, i)
		if len(values) > 0 && kindOf(values) != "int" || i == 0 && slices.ContainsFunc(values, func(s string) bool { return s != "0" && s != "1" }) {
			return false
		}
	}
	return true
}

// valuesOf returns the values of column i that are not missing.
func valuesOf(records [][]string, i int) []string {
	values := make([]string, 0, len(records))
	for _, r := range records {
		if r[i] != "" && !slices.Contains(missingWords, r[i]) {
			values = append(values, r[i])
		}
	}
	return values
}

// kindOf is the narrowest type that holds all values.
func kindOf(values []string) string {
	if len(values) == 0 {
		return "string"
	}
	kind := "int"
	for _, s := range values {
		if _, ok := parseID([]byte(s)); ok {
			continue
		}
		if _, why := parseNumber([]byte(s)); why != "" {
			return "string"
		}
		kind = "float"
	}
	return kind
}

func (in *Inspection) columns(names []string, records [][]string) {
	for i, name := range names {
		values := valuesOf(records, i)
		for _, r := range records {
			if slices.Contains(missingWords, r[i]) && !slices.Contains(in.Missing, r[i]) {
				in.Missing = append(in.Missing, r[i])
			}
		}
		c := lookAt(name, values, float64(len(records)-len(values))/float64(len(records)))
		if c.Kind == "string" {
			c.Separator = guessSeparator(values, in.Delimiter)
		}
		in.Columns = append(in.Columns, c)
	}
	slices.Sort(in.Missing)
}

// lookAt describes a column by its values and the share of records without one.
func lookAt(name string, values []string, missing float64) ColumnLook {
	c := ColumnLook{Name: name, Kind: kindOf(values), Missing: missing}
	counts := map[string]int{}
	for j, s := range values {
		counts[s]++
		if c.Kind == "string" {
			continue
		}
		x, _ := parseNumber([]byte(s))
		if j == 0 {
			c.Min, c.Max = x, x
		}
		c.Min, c.Max = min(c.Min, x), max(c.Max, x)
	}
	c.Distinct, c.Examples = len(counts), frequent(counts)
	return c
}

// frequent returns the most frequent values, the smaller of two first.
func frequent(counts map[string]int) []string {
	values := make([]string, 0, len(counts))
	for s := range counts {
		values = append(values, s)
	}
	slices.SortFunc(values, func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	return values[:min(len(values), mostExamples)]
}

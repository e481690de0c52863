package data

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Inspection is what some records of a file look like.
type Inspection struct {
	Path      string
	First     string // the file that was looked at, the first of Files; "" for a topic
	Files     int    // that Path names; 0 for a topic
	Format    string // one of Formats
	Delimiter string
	Header    bool   // the first line names the fields
	Comment   string // mark of lines that are no records, "" if none was seen
	Rows      int    // records that were looked at
	Ragged    int    // lines among them with another number of fields, left out
	Missing   []string
	Columns   []ColumnLook
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

// Inspect looks at rows records of a file (0: 10,000), half of them at its beginning and
// the others in 16 places all over it, unless it is packed, and guesses how it is written: delimiter, header, types, label. The guesses are for a person
// to check.
func Inspect(path string, rows int) (*Inspection, error) {
	if rows <= 0 {
		rows = defaultLook
	}
	files, err := resolve([]string{path})
	if err != nil {
		return nil, err
	}
	in, err := inspect(path, &files[0], min(rows, mostLook))
	if err == nil && files[0].log == nil {
		in.First, in.Files = files[0].name, len(files)
	}
	return in, err
}

// inspect looks at the first of the files that path names.
func inspect(path string, f *file, rows int) (*Inspection, error) {
	if f.log != nil {
		return inspectTopic(path, f, rows)
	}
	if head, err := f.head(); err != nil {
		return nil, err
	} else if f.packing, err = packingOf(f.name, head); err != nil {
		return nil, err
	}
	if format, err := f.sniff(); err != nil || format != "" {
		if err != nil {
			return nil, err
		}
		if err := f.begin(format); err != nil {
			return nil, err
		}
		return inspectRecords(path, f, format, newFormat(Source{Format: format}), rows)
	}
	all, err := someLines(f, rows+1)
	if err != nil {
		return nil, err
	}
	if isBinary(all) {
		return nil, fmt.Errorf("data: inspect: %s is no text: it has zero bytes or many control characters; is it csv or tsv?", f.name)
	}
	if len(all) > 0 && isJSON(all[0]) {
		return nil, fmt.Errorf("data: inspect: %s%s", f.name, f.asLines())
	}
	in := &Inspection{Path: path}
	in.Comment, all = comments(all)
	if len(all) == 0 {
		return nil, fmt.Errorf("data: inspect: %s: there are no records: every line is blank", f.name)
	}
	in.sniffDelimiter(all)
	records := in.split(all)
	if len(records) == 0 {
		return nil, fmt.Errorf("data: inspect: %s: no two lines have the same number of fields; is it csv or tsv?", f.name)
	}
	names, err := in.names(records)
	if err != nil {
		return nil, fmt.Errorf("data: inspect: %s: %w", f.name, err)
	}
	if in.Header {
		records = records[1:]
	}
	records = records[:min(len(records), rows)] // one more was read, for the header
	if in.Rows = len(records); in.Rows == 0 {
		return nil, fmt.Errorf("data: inspect: %s: there is a header and no record", f.name)
	}
	in.columns(names, records)
	in.guessLabel()
	return in, nil
}

// isJSON tells whether the first line of a text begins JSON of some layout.
func isJSON(line string) bool {
	line = strings.TrimSpace(strings.TrimPrefix(line, bom))
	return line == "[" || line == "{" || strings.HasPrefix(strings.TrimLeft(line, "[ "), `{"`)
}

// someLines returns n lines from all over a file that are not blank, the first ones among them.
func someLines(f *file, n int) ([]string, error) {
	if err := f.begin("csv or tsv"); err != nil {
		return nil, err
	}
	src, err := f.open()
	if err != nil {
		return nil, err
	}
	defer src.Close()
	var l lines
	var all []string
	err = spread(cut([]file{*f}), n, func(blocks []block, rows int) (n int, err error) {
		for i := 0; i < len(blocks) && n < rows; i++ {
			if err := l.begin(src, f, blocks[i]); err != nil {
				return n, err
			}
			for n < rows {
				line, _, err := l.next()
				if err == io.EOF {
					break
				}
				if err != nil {
					return n, err
				}
				if s := string(line); strings.TrimSpace(s) != "" {
					all = append(all, s)
					n++
				}
			}
		}
		return n, nil
	})
	if err != nil {
		return nil, fmt.Errorf("data: inspect: %s: %w", f.name, err)
	}
	return all, nil
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

// split cuts lines into fields and leaves out those of another width than most.
func (in *Inspection) split(all []string) [][]string {
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
	width, _ := mode(widths)
	n := len(records)
	records = slices.DeleteFunc(records, func(r []string) bool { return len(r) != width })
	in.Ragged += n - len(records)
	return records
}

// names decides whether the first record is a header: no field of it is a
// number or missing, and either some column below is made of numbers or a field
// has the name of a label. All must differ.
func (in *Inspection) names(records [][]string) ([]string, error) {
	first := records[0]
	seen, header, numbers, twice := map[string]bool{}, true, false, ""
	for i, s := range first {
		_, why := parseNumber([]byte(s))
		header = header && why != "" && s != "" && !slices.Contains(missingWords, s)
		if seen[s] {
			twice = s
		}
		seen[s] = true
		numbers = numbers || IsLabelName(s) || kindOf(valuesOf(records[1:], i)) != "string"
	}
	switch in.Header = header && numbers; {
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

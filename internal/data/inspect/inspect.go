package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Stored is about the files as a whole.
type Stored struct {
	Packed  bool  // a file is compressed: only its beginning was read
	Records int64 // estimate of the records of all files
	All     bool  // every record was read
}

// Inspection describes some records of files.
type Inspection struct {
	Path string
	Stored
	More      []string // further paths
	Names     []string // files that were read, the first of all first; for a topic, ranges
	Files     int      // number of files of the paths; for a topic, of partitions
	Format    string   // one of Formats
	Delimiter string
	Header    bool   // the first line names the fields
	Comment   string // mark of comment lines, "" if none was seen
	Rows      int    // records read
	Ragged    int    // lines with another number of fields, left out
	Multiline bool   // fields contain line breaks, in quotes or escaped
	Escape    string // what a backslash escapes, one of schema.Escapes; "": nothing
	Missing   []string
	Notes     []string // oddities of the files, with advice
	Columns   []Column
	Unread    []string // fields that cannot be read, with reasons
	Label     string   // column that is probably the label
	Sure      bool     // Label has a usual name of labels
	Rejected  []string // columns that may be a better label, with the reason why they are not Label
	Positive  []string // values of Label that probably mean 1
	Negative  []string // values of Label that mean 0, if both classes have several formats
	Threshold *float64 // for a numeric label, instead of Positive: from this value on it is 1
	Certain   bool     // Positive are common words for 1
}

const (
	maxLook     = 1 << 20
	maxExamples = 5
	sniffLines  = 50 // used to find the delimiter
)

// Words that programs write for a missing value.
var missingWords = []string{"?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "\\N", "#N/A"}

// First reads rows records (0: 10,000) of a file, or of the first file of a glob or
// folder, and guesses its layout: delimiter, header, types, label. Half of the records are
// from its beginning and the others from 16 places throughout it, unless it is packed. The
// user should check the guesses.
func First(path string, rows int) (*Inspection, error) { return inspectSome([]string{path}, rows, 1) }

// All is First for all files of some paths, or for 16 of them if there are more. At most
// half of the records are from the beginning of the first file. The others are from
// throughout it and from the other files. If rows is 0, there are 40,000 records, or 10,000 of more than
// 100 columns.
func All(paths []string, rows int) (*Inspection, error) {
	const many, most = 40_000, 100
	in, err := inspectSome(paths, rows, record.MaxFiles)
	if err == nil && rows == 0 && !in.All && len(in.Columns) <= most {
		return inspectSome(paths, many, record.MaxFiles)
	}
	return in, err
}

// someFiles is the number of files among which a full one is searched, as the first.
const someFiles = 16

func inspectSome(paths []string, rows, most int) (*Inspection, error) {
	if rows <= 0 {
		rows = record.DefaultLook
	}
	files, err := record.Resolve(paths)
	if err != nil {
		return nil, err
	}
	some := files
	if most == 1 {
		some = record.Full(files[:min(len(files), someFiles)])[:1]
	}
	s := record.NewSample(some, min(rows, maxLook))
	sampled := len(s.Files)
	s.Files = record.Full(s.Files)
	in, err := inspect(paths[0], s)
	if err != nil {
		return nil, err
	}
	in.widen(files)
	in.More = paths[1:]
	in.Files, in.All = len(files), in.All && sampled == len(files)
	for i := range s.Files {
		in.Names = append(in.Names, s.Files[i].Name)
		in.Packed = in.Packed || s.Files[i].Packing != nil
	}
	in.Records = in.estimate(files)
	return in, nil
}

// estimate returns the number of records of all files, estimated by their bytes and by the
// text of the records read. Packed files and those of Parquet are assumed to hold a record in a quarter of its text.
func (in *Inspection) estimate(files []record.File) int64 {
	if in.All || in.Rows == 0 {
		return int64(in.Rows)
	}
	stored, text := int64(0), int64(1)
	for i := range files {
		stored += files[i].Bytes
	}
	for i := range in.Columns {
		text += int64(in.Rows) // a separator after each value
		if in.Format == "jsonl" {
			text += int64(in.Rows * (len(in.Columns[i].Name) + len(`"": `)))
		}
		for _, v := range in.Columns[i].cells.values {
			text += int64(len(v))
		}
	}
	if in.Packed || in.Format == "parquet" {
		stored *= 4
	}
	return max(int64(in.Rows), int64(float64(stored)/float64(text)*float64(in.Rows)))
}

// inspect reads a sample of files.
func inspect(path string, s *record.Sample) (*Inspection, error) {
	if s.Files[0].Log != nil {
		return inspectTopic(path, s)
	}
	format, err := sniffAll(s)
	if err != nil {
		return nil, err
	}
	if format != "" {
		return inspectRecords(path, s, format, record.NewFormat(schema.Source{Format: format}))
	}
	all, err := someLines(s)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if err := zeroByte(&s.Files[i], &all[i]); err != nil {
			return nil, err
		}
		if isBinary(all[i].lines) {
			return nil, fmt.Errorf("%s is not text: it has zero bytes or many control characters; is it csv or tsv?", s.Files[i].Name)
		}
	}
	if len(all[0].lines) > 0 && isJSON(all[0].lines[0]) {
		return nil, fmt.Errorf("%s%s", s.Files[0].Name, s.Files[0].AsLines())
	}
	in := &Inspection{Path: path}
	return in, in.inspectLines(s, all)
}

// sniffAll finds the packing of each file and the format of the first file.
func sniffAll(s *record.Sample) (format string, err error) {
	for i := range s.Files {
		f := &s.Files[i]
		if err := f.FindPacking(); err != nil {
			return "", err
		}
		seen, err := sniff(f)
		if err != nil {
			return "", err
		}
		if i == 0 {
			format = seen
			if err := f.Begin(orText(format)); err != nil {
				return "", err // a kind that no format reads
			}
		} else if seen != format && (schema.NamesFields(seen) || schema.NamesFields(format) && seen != "") {
			return "", fmt.Errorf("%s looks like %s, and %s like %s; name files of one format", s.Files[0].Name, orText(format), f.Name, seen)
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

// inspectLines inspects lines of fields, some of each file.
func (in *Inspection) inspectLines(s *record.Sample, all []sampled) (err error) {
	first := &s.Files[0]
	if in.Comment = uncomment(all); in.Comment == "" && strings.HasPrefix(first.Name, record.Builtin) {
		in.Comment = adultComment
	}
	if len(all[0].lines) == 0 {
		return fmt.Errorf("%s: there are no records: every line is blank", first.Name)
	}
	in.sniffDelimiter(all[0].lines)
	in.sniffDialect(all[0].lines)
	if all, err = in.joinLines(s, all); err != nil {
		return err
	}
	in.noteEncoding(s, all)
	in.arrange(s, all)
	records := in.split(all[0].lines, 0)
	if len(records) == 0 {
		return fmt.Errorf("%s: no two lines have the same number of fields; is it csv or tsv?", first.Name)
	}
	if n, read := len(records), len(all[0].lines); !in.consistent(n, read) {
		return fmt.Errorf("%s: only %d of %d lines have the most frequent number of fields, %d (separated by %q); is it csv or tsv?", first.Name, n, read, len(records[0]), in.Delimiter)
	}
	header, rows := records[0], make([]int, len(all))
	for i := 1; i < len(all); i++ {
		more := in.split(all[i].lines, len(header))
		if len(more) == 0 && len(all[i].lines) > 0 {
			return fmt.Errorf("%s: none of the lines read has %d fields, the number in %s; give files of one kind", s.Files[i].Name, len(header), first.Name)
		}
		if len(more) > 0 && mayBeHeader(header) && slices.Equal(more[0], header) {
			more = more[1:]
		}
		records = append(records, more...)
		rows[i] = len(more)
	}
	records, names, err := in.named(records)
	if err != nil {
		return fmt.Errorf("%s: %w", first.Name, err)
	}
	if in.Header {
		if err := in.oneHeader(s); err != nil {
			return err
		}
		records = records[1:]
	}
	records = records[:min(len(records), s.Rows)] // one more was read, for the header
	if in.Rows = len(records); in.Rows == 0 {
		return fmt.Errorf("%s: it has only a header line, no records; check the program that wrote it", first.Name)
	}
	rows[0] = len(records)
	for i := len(rows) - 1; i > 0; i-- { // a repeated header and the last record have been removed
		rows[i] = min(rows[i], rows[0])
		rows[0] -= rows[i]
	}
	in.columns(names, records, func(column int) func(string) string { return in.placeOf(s, all, column, len(names)) })
	in.addFolders(s, rows)
	in.guessLabel(s)
	return nil
}

// oneHeader returns the error of files whose headers differ, which readers reject.
func (in *Inspection) oneHeader(s *record.Sample) error {
	all := record.Set{Source: in.Source(), Files: s.Files}
	all.Format = record.NewFormat(all.Source)
	for i := range all.Files {
		if err := all.Look(i); err != nil {
			return err
		}
	}
	return nil
}

// arrange gives the lines of files whose headers differ the columns of all of them, in one order.
func (in *Inspection) arrange(s *record.Sample, all []sampled) {
	first := *in // what it finds about the first file is found again of all files
	if records := first.split(all[0].lines, 0); len(all) == 1 || len(records) == 0 {
		return
	} else if _, _, err := first.named(records); err != nil || !first.Header {
		return
	}
	set := record.Set{Source: first.Source()}
	form := record.NewDelimited(set.Source)
	set.Format = form
	of := make([]int, 0, len(all)) // of files with a header, their index
	for i := range s.Files {
		set.Files = append(set.Files, s.Files[i])
		switch err := set.Look(len(of)); {
		case errors.Is(err, record.ErrNoLine):
			set.Files = set.Files[:len(of)]
		case err != nil:
			return // a file of another kind, which is reported below
		default:
			of = append(of, i)
		}
	}
	header := strings.Join(set.Fields, string(form.Delim))
	for i, file := range of {
		own, x := set.ColumnsOf(i), &all[file]
		if order := record.NewArranged(form, own, set.Fields); order != nil && len(x.lines) > 0 {
			top := first.split(x.lines[:1], 0)
			*x = x.arranged(order)
			if len(top) == 1 && slices.Equal(headerNames(top[0]), own) {
				x.lines[0] = header
			}
		}
	}
	in.Notes = append(in.Notes, set.Partial(set.Fields)...)
}

// arranged returns the lines with their fields in another order. Lines of another width stay as they are.
func (x sampled) arranged(order *record.Arranged) sampled {
	y := sampled{make([]string, len(x.lines)), x.offsets}
	for i, line := range x.lines {
		text, _ := order.Line([]byte(line))
		y.lines[i] = string(text)
	}
	return y
}

// isJSON reports whether the first line of a text begins JSON of any layout.
func isJSON(line string) bool {
	line = strings.TrimSpace(strings.TrimPrefix(line, record.BOM))
	return line == "[" || line == "{" || strings.HasPrefix(strings.TrimLeft(line, "[ "), `{"`)
}

// sampled are non-blank lines of a file, with their offsets.
type sampled struct {
	lines   []string
	offsets []int64
}

// someLines returns lines of each file; for the first, from its beginning.
func someLines(s *record.Sample) ([]sampled, error) {
	for i := range s.Files {
		if err := s.Files[i].Begin("csv or tsv"); err != nil {
			return nil, err
		}
	}
	return sample(s, record.LinesOf(func(line []byte) bool { return len(bytes.TrimSpace(line)) > 0 }))
}

// sample reads the records of a sample, and one more for a header.
func sample(s *record.Sample, r record.Records) ([]sampled, error) {
	all := make([]sampled, len(s.Files))
	s.Rows++
	defer func() { s.Rows-- }()
	err := s.Units(r, func(file int, u record.Unit) error {
		x := &all[file]
		x.lines, x.offsets = append(x.lines, string(u.Record)), append(x.offsets, u.Offset)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// uncomment removes the comments at the beginning of files, and returns their mark.
func uncomment(all []sampled) (mark string) {
	for i := range all {
		x := &all[i]
		m, n := comments(x.lines)
		if m == "" || mark != "" && m != mark {
			continue
		}
		others := func(x sampled) bool {
			return slices.ContainsFunc(x.lines, func(s string) bool { return strings.HasPrefix(s, m) })
		}
		if i > 0 && mark == "" && slices.ContainsFunc(all[:i], others) {
			continue // those are records
		}
		mark, x.lines, x.offsets = m, x.lines[n:], x.offsets[n:]
	}
	return mark
}

// comments counts the first lines that start with a mark that no later line starts with.
func comments(all []string) (mark string, n int) {
	for _, m := range []string{"#", "//", "|", "%"} {
		n := 0
		for n < len(all) && strings.HasPrefix(all[n], m) {
			n++
		}
		if n > 0 && n < len(all) && !slices.ContainsFunc(all[n:], func(s string) bool { return strings.HasPrefix(s, m) }) {
			return m, n
		}
	}
	return "", 0
}

// sniffDelimiter chooses the delimiter that splits most lines into the same number of
// fields; of several, the one with the most fields.
func (in *Inspection) sniffDelimiter(all []string) {
	bestSame, bestWidth := -1, 0
	for _, delim := range record.Delimiters() {
		format := "csv"
		if delim == "\t" {
			format = "tsv"
		}
		widths := map[int]int{}
		form := record.NewDelimited(schema.Source{Format: format, Delimiter: delim})
		for _, line := range all[:min(len(all), sniffLines)] {
			if fields, fl := form.Split([]byte(line), nil); fl == nil && len(fields) > 1 {
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

// mode returns the most frequent width; of two with one count, the larger.
func mode(widths map[int]int) (width, n int) {
	for w, c := range widths {
		if c > n || c == n && w > width {
			width, n = w, c
		}
	}
	return width, n
}

// split splits lines into fields and leaves out lines of another width. Width 0 means the
// width of most lines.
func (in *Inspection) split(all []string, width int) [][]string {
	form := record.NewDelimited(schema.Source{Format: in.Format, Delimiter: in.Delimiter, Escape: in.Escape})
	widths, records := map[int]int{}, make([][]string, 0, len(all))
	for _, line := range all {
		fields, fl := form.Split([]byte(line), nil)
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

// consistent reports whether enough of the lines read have the same number of fields to be
// records: three fifths, or nine tenths if blanks separate the fields, as they do in prose.
func (in *Inspection) consistent(same, read int) bool {
	if in.Delimiter == " " {
		return 10*same >= 9*read
	}
	return 5*same >= 3*read
}

// named is names, with repetitions of the header removed from the records, as in
// concatenated files.
func (in *Inspection) named(records [][]string) (_ [][]string, names []string, err error) {
	again := func(r []string) bool { return slices.Equal(r, records[0]) }
	once := append(records[:1:1], slices.DeleteFunc(slices.Clone(records[1:]), again)...)
	if names, err = in.names(once); in.Header || len(once) == len(records) {
		return once, names, err
	}
	names, err = in.names(records)
	return records, names, err
}

// names decides whether the first record is a header. All its fields must differ, and none may be
// missing or a number, except that some names may be integers (see namesSlots). In addition, one
// of these must be true:
//
//   - A column below it is numeric.
//   - A field has the name of a label.
//   - None of its fields occurs in another record, but fields of other records recur.
//   - There is no other record.
func (in *Inspection) names(records [][]string) ([]string, error) {
	first := records[0]
	seen, numbers, twice := map[string]bool{}, false, ""
	first = headerNames(first)
	for i, s := range first {
		if seen[s] {
			twice = s
		}
		seen[s] = true
		numbers = numbers || IsLabelName(s) || kindOf(valuesOf(records[1:], i)) != "string"
	}
	switch in.Header = namesSlots(records) || mayBeHeader(records[0]) && (numbers || len(records) == 1 || isUnlike(records)); {
	case in.Header && twice != "":
		return nil, fmt.Errorf("its header names %s twice; rename one, or if this line is a record, say so with -config FILE (data.header: false)", strconv.Quote(string(record.CutLong([]byte(twice)))))
	case in.Header:
		return first, nil
	case in.isCriteo(records):
		in.Format = "criteo"
		return schema.CriteoFields(), nil
	}
	names := make([]string, len(first))
	for i := range names {
		names[i] = fmt.Sprintf("column_%d", i+1)
	}
	return names, nil
}

// namesSlots reports whether the first record is a header in which some names are integers, such
// as the numbers of slots: the others are words, of which several, or one with the name of a
// label, head columns of numbers.
func namesSlots(records [][]string) bool {
	const several = 2
	heads, integers, seen := 0, 0, map[string]bool{}
	for i, s := range records[0] {
		if s == "" || seen[s] || slices.Contains(missingWords, s) {
			return false
		}
		seen[s] = true
		if _, ok := value.ParseID([]byte(s)); ok && s[0] != '-' {
			integers++
			continue
		}
		below := valuesOf(records[1:], i)
		switch numbers := len(below) > 0 && kindOf(below) != "string"; {
		case kindOf([]string{s}) != "string":
			return false // a number with a fraction or a sign
		case numbers && IsLabelName(s):
			heads += several
		case numbers:
			heads++
		}
	}
	return integers > 0 && heads >= several
}

// headerNames returns the names of the fields of a header.
func headerNames(header []string) []string {
	names := make([]string, len(header))
	for i, s := range header {
		names[i] = record.FieldName(s, i)
	}
	return names
}

// mayBeHeader reports whether no field of a record is a number or missing. The first may
// be empty, as for the index of pandas, and so may the last, after a trailing delimiter.
func mayBeHeader(record []string) bool {
	if len(record) > 2 && record[0] == "" {
		record = record[1:]
	}
	for len(record) > 2 && record[len(record)-1] == "" {
		record = record[:len(record)-1]
	}
	return !slices.ContainsFunc(record, func(s string) bool {
		_, why := value.ParseNumber([]byte(s))
		return why == "" || s == "" || slices.Contains(missingWords, s)
	})
}

// isUnlike reports whether the first record differs from the others: in at least two
// columns of few values, the values of the others recur and its own does not.
func isUnlike(records [][]string) bool {
	const each = 5 // records per value
	repeated := 0
	for i, s := range records[0] {
		counts := map[string]int{}
		for _, r := range records[1:] {
			counts[r[i]]++
		}
		switch {
		case counts[s] > 0:
			return false
		case len(counts) > 0 && each*len(counts) < len(records):
			repeated++
		}
	}
	return repeated >= 2
}

// isCriteo reports whether the records have the layout of Criteo's logs: a label of 0 or
// 1, 13 integers, 26 strings.
func (in *Inspection) isCriteo(records [][]string) bool {
	if in.Delimiter != "\t" || len(records[0]) != len(schema.CriteoFields()) {
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

// kindOf returns the narrowest type of all values.
func kindOf(values []string) string {
	if len(values) == 0 {
		return "string"
	}
	kind := "int"
	for _, s := range values {
		if _, ok := value.ParseID([]byte(s)); ok {
			continue
		}
		if _, why := value.ParseNumber([]byte(s)); why != "" {
			return "string"
		}
		kind = "float"
	}
	return kind
}

// Source returns the source settings to read the file.
func (in *Inspection) Source() schema.Source {
	s := schema.Source{Format: in.Format, Missing: in.Missing}
	if !s.HasLayout() {
		return s
	}
	s.Delimiter, s.Header, s.Comment, s.Multiline = in.Delimiter, in.Header, in.Comment, in.Multiline
	s.Escape = in.Escape
	if !in.Header {
		for _, c := range in.Columns {
			if !c.Folder {
				s.Fields = append(s.Fields, c.Name)
			}
		}
	}
	return s
}

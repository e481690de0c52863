package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/pairs"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
)

const maxLook = 1 << 20

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

// columns describes the columns of some records. place returns the first record with a
// value in a column.
func (in *Inspection) columns(names []string, records [][]string, place func(column int) func(string) string) {
	seen := make([]seenColumn, len(names))
	pairs.ForEach(len(names), func(i int) { seen[i] = columnOf(names[i], records, i, in.Delimiter) })
	for i := range seen {
		c := &seen[i]
		in.noteStrays(names[i], c.strays, len(c.cells.values), place(i))
		in.Columns = append(in.Columns, c.Column)
		in.noteWords(&c.Column, c.words)
	}
	slices.Sort(in.Missing)
}

// seenColumn is a column with the values that mean missing ones.
type seenColumn struct {
	Column
	strays []string
	words  map[string]int // how often each occurs
}

// columnOf describes column i of some records.
func columnOf(name string, records [][]string, i int, delimiter string) seenColumn {
	var all cells
	words := map[string]int{}
	for _, r := range records {
		switch missing := slices.Contains(missingWords, r[i]); {
		case missing:
			words[r[i]]++
			all.add()
		case r[i] == "":
			all.add()
		default:
			all.add(r[i])
		}
	}
	strays := straysOf(name, all.values)
	return seenColumn{lookAt(name, all.without(strays), delimiter), strays, words}
}

package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/data/jsonl"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// sniff returns the format of a file, by its first bytes or else its name; "" for lines of
// fields.
func sniff(f *record.File) (string, error) {
	head, err := f.Read(1 << 12)
	if err != nil {
		return "", err
	}
	if err := f.OneValue(); err != nil {
		return "", err
	}
	format := seenIn(head)
	if format == "" && len(bytes.TrimLeft(bytes.TrimPrefix(head, []byte(record.BOM)), " \t\r\n")) > 0 {
		format = namedBy(f.Name) // for a damaged file there is only the name
	}
	return format, nil
}

// namedBy returns the format, other than lines of fields, that the name of a file
// suggests; "" if there is none.
func namedBy(name string) string {
	switch filepath.Ext(record.UnpackedName(strings.ToLower(name))) {
	case ".tfrecord", ".tfrecords", ".tfrec":
		return "tfrecord"
	case ".jsonl", ".ndjson":
		return "jsonl"
	case ".arrow", ".arrows", ".feather":
		return "arrow"
	case ".avro":
		return "avro"
	}
	return ""
}

// seenIn returns the format by the first bytes of a file, "" if it may be lines of fields.
func seenIn(head []byte) string {
	if typed := record.TypedIn(head); typed != "" {
		return typed
	}
	if len(head) >= tfrecord.HeaderBytes {
		if _, err := tfrecord.Header(head[:tfrecord.HeaderBytes]); err == nil {
			return "tfrecord"
		}
	}
	if record.IsObjects(head) {
		return "jsonl"
	}
	return pairsIn(head)
}

// pairsIn returns libsvm or libffm by the first line with features: comments, blank lines and
// lines that have only a label may come before it. It returns "" for other text.
func pairsIn(head []byte) string {
	for len(head) > 0 {
		line, rest, whole := bytes.Cut(head, []byte{'\n'})
		head = rest
		line, _, comment := bytes.Cut(line, []byte{'#'})
		words := strings.Fields(string(line))
		if !whole && !comment && len(words) > 2 {
			words = words[:len(words)-1] // perhaps cut
		}
		if len(words) > 0 && !strings.Contains(words[0], ":") { // a label
			if _, why := value.ParseNumber([]byte(words[0])); why != "" && len(words) == 1 {
				return ""
			}
			words = words[1:]
		} else if len(words) == 1 {
			continue // perhaps a time
		}
		if len(words) == 0 {
			continue
		}
		for n, format := range map[int]string{1: "libsvm", 2: "libffm"} {
			if !slices.ContainsFunc(words, func(w string) bool { return !isPair(w, n) }) {
				return format
			}
		}
		return ""
	}
	return ""
}

// SelfDescribed returns the format of files that name their fields: parquet, arrow, avro,
// tfrecord or jsonl. It returns "" if one file does not, if they differ, or if one cannot be read,
// which [Open] then reports.
func SelfDescribed(patterns []string) (format string) {
	files, err := record.Resolve(patterns)
	if err != nil {
		return ""
	}
	for i := range files {
		f := &files[i]
		if f.Log != nil {
			return ""
		}
		if f.FindPacking() != nil {
			return ""
		}
		seen, err := sniff(f)
		if seen == "" && f.Packing != nil && f.IsEmpty() {
			continue
		}
		if err != nil || !schema.NamesFields(seen) || format != "" && seen != format {
			return ""
		}
		format = seen
	}
	return format
}

// isPair reports whether a word is n integers and a number, separated by colons.
func isPair(word string, n int) bool {
	parts := strings.Split(word, ":")
	if len(parts) != n+1 {
		return false
	}
	for _, p := range parts[:n] {
		if _, err := strconv.ParseUint(p, 10, 64); err != nil && p != "qid" {
			return false
		}
	}
	_, why := value.ParseNumber([]byte(parts[n]))
	return why == ""
}

// inspectTopic inspects records of a topic, if they name their fields.
func inspectTopic(path string, s *record.Sample) (*Inspection, error) {
	f := &s.Files[0]
	src, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer src.Close()
	const enough = 20
	first := ""
	for _, name := range []string{"jsonl", "tfrecord"} {
		form, n, good := record.OfTopic(name), 0, 0
		err := record.FirstUnits(form, nil, f, src, enough, func(record []byte) error {
			n++
			named := 0
			names := map[string]func([]byte, func([]byte)) error{"jsonl": jsonl.Names, "tfrecord": tfrecord.Names}[name]
			if names(record, func([]byte) { named++ }) == nil && (named > 0 || name == "jsonl") {
				good++
			}
			return nil
		})
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		case n > 0 && good == n:
			return inspectRecords(path, s, name, form)
		case n == 0 && first == "":
			first = strings.TrimSpace(record.FirstFlaw(form, f, src))
		}
	}
	if first == "" {
		first = path + ": the format of a topic is only detected if its records are JSON objects or tf.Examples; otherwise give -config FILE"
	}
	return nil, errors.New(first)
}

// inspectRecords inspects records of files, or of ranges of a topic, that are not lines of
// fields.
func inspectRecords(path string, s *record.Sample, name string, form record.Format) (*Inspection, error) {
	in := &Inspection{Path: path, Format: name}
	names, err := in.namesOf(s, form)
	if err != nil {
		return nil, err
	}
	switch name {
	case "libsvm", "libffm":
		var ones bool
		if names, ones, err = record.NumbersIn(form, s); err != nil {
			return nil, err
		}
		switch {
		case name == "libsvm" && (ones || len(names) > maxIndices):
			names = []string{"label", "features", "values"}
		case name == "libffm" && !ones:
			names = withValues(names)
		}
	}
	flatten := map[string]string{"jsonl": "flatten it (e.g. with jq)", "tfrecord": "flatten it where the records are written"}
	nests := map[string]func([]byte, func([]byte)) error{"jsonl": jsonl.Nested, "tfrecord": tfrecord.Nested}
	l := &looker{nests: nests[name], names: names, cells: make([]cells, len(names)), of: make([]fileLook, len(s.Files))}
	if err := l.read(form, s); err != nil {
		return nil, err
	}
	if in.Rows = l.rows; in.Rows == 0 {
		return nil, fmt.Errorf("%s: %w", s.Files[0].Name, l.none())
	}
	if err := l.foreign(s); err != nil {
		return nil, err
	}
	for i, field := range names {
		in.dropMissingWords(field, &l.cells[i])
		strays := straysOf(field, l.cells[i].values)
		l.cells[i] = l.cells[i].without(strays)
		in.noteStrays(field, strays, len(l.cells[i].values), func(string) string { return s.Files[0].Name })
		c := lookAt(field, l.cells[i], "")
		if name == "libffm" && strings.HasSuffix(field, record.ValuesSuffix) && c.Distinct == 1 && c.Examples[0] == "1.0" {
			continue // all values are 1
		}
		in.Columns = append(in.Columns, c)
	}
	for _, field := range l.nested {
		in.Unread = append(in.Unread, field+" is a list of objects or lists; "+flatten[name])
	}
	if l.nan {
		in.Missing = append(in.Missing, "nan")
	}
	slices.Sort(in.Missing)
	rows := make([]int, len(s.Files))
	for i := range l.of {
		rows[i] = l.of[i].good
	}
	in.addFolders(s, rows)
	in.guessLabel(s)
	return in, nil
}

// namesOf reads the beginning of each file as the reader does, and returns the names of
// the fields of records.
func (in *Inspection) namesOf(s *record.Sample, form record.Format) (names []string, err error) {
	set := record.Set{Source: schema.Source{Format: in.Format}, Format: form, Files: s.Files}
	for i := range set.Files {
		if err := set.Look(i); err != nil {
			return nil, err
		}
		for _, field := range set.Files[i].Unread() {
			if !slices.Contains(in.Unread, field) {
				in.Unread = append(in.Unread, field)
			}
		}
	}
	if record.Named(form) {
		return record.SomeNames(form, s)
	}
	in.Notes = append(in.Notes, set.Partial(set.Fields)...)
	return slices.DeleteFunc(set.Fields, func(name string) bool { return set.Unreadable([]string{name}) != nil }), nil
}

// withValues adds the values' field after each field of LibFFM.
func withValues(names []string) (all []string) {
	for i, n := range names {
		if all = append(all, n); i > 0 {
			all = append(all, n+record.ValuesSuffix)
		}
	}
	return all
}

// looker gathers the values of records.
type looker struct {
	names  []string
	cells  []cells
	nan    bool                                           // a number is NaN
	nests  func(record []byte, f func(name []byte)) error // finds lists of lists; nil if there can be none
	nested []string                                       // fields that are lists of objects or lists
	rows   int
	bad    int            // unusable records
	flaws  []record.Fault // the first flaws
	of     []fileLook     // by file
}

// fileLook counts the records of one file.
type fileLook struct {
	good, bad int
	flaw      record.Fault // the first flaw
}

func (l *looker) read(form record.Format, s *record.Sample) error {
	d, err := form.Decoder(l.names, l.names)
	if err != nil {
		return err
	}
	lists := make([]value.List, len(l.names))
	return s.Units(form.Records(l.names), func(file int, u record.Unit) error {
		fl := u.Flaw
		if fl == nil {
			fl = d.Decode(u.Record, lists)
		}
		if fl != nil {
			return l.note(form, s, file, u, fl) // the check command reports all
		}
		l.rows++
		l.of[file].good++
		l.noteNested(u.Record)
		for i := range lists {
			var own []string
			for k := range lists[i].Len() {
				switch text := string(lists[i].Append(nil, k)); {
				case text == "nan" && lists[i].Kind != value.Text:
					l.nan = true
				case text != "":
					own = append(own, text)
				}
			}
			l.cells[i].add(own...)
			l.cells[i].places = append(l.cells[i].places, lists[i].Places())
		}
		return nil
	})
}

// noteNested keeps the names of lists of objects or lists, which cannot be fields.
func (l *looker) noteNested(record []byte) {
	if l.nests == nil {
		return
	}
	_ = l.nests(record, func(name []byte) {
		if len(l.nested) < maxNested && !slices.Contains(l.nested, string(name)) {
			l.nested = append(l.nested, string(name))
		}
	})
}

// maxNested is the maximum number of such lists reported.
const maxNested = 64

// fewFlaws is the maximum number of flaws reported of a file without usable records.
const fewFlaws = 3

// note keeps the first unusable records.
func (l *looker) note(form record.Format, s *record.Sample, file int, u record.Unit, fl *record.Flaw) error {
	l.bad++
	l.of[file].bad++
	if len(l.flaws) == fewFlaws && l.of[file].bad > 1 {
		return nil
	}
	at, err := form.Place(&s.Files[file], u.Offset)
	at.Column, at.Value, at.Want = fl.Column, fl.Value, fl.Want
	if l.of[file].bad == 1 {
		l.of[file].flaw = at
	}
	if len(l.flaws) < fewFlaws {
		l.flaws = append(l.flaws, at)
	}
	return err
}

// foreign returns the error of a file without usable records, if the first file has some.
func (l *looker) foreign(s *record.Sample) error {
	for i := range l.of {
		if o := &l.of[i]; i > 0 && o.good == 0 && o.bad > 0 && l.of[0].good > 0 {
			return fmt.Errorf("%s: none of the records read can be used, but the records of %s can; give files of one kind: %s: %s",
				s.Files[i].Name, s.Files[0].Name, o.flaw.Place(), o.flaw.Reason())
		}
	}
	return nil
}

// none returns the reason why there is no record to inspect.
func (l *looker) none() error {
	if l.bad == 0 {
		return errors.New("there are no records")
	}
	reasons := make([]string, len(l.flaws))
	for i := range l.flaws {
		reasons[i] = "\n  " + l.flaws[i].Place() + ": " + l.flaws[i].Reason()
	}
	return fmt.Errorf("none of its first %d records can be used:%s", l.bad, strings.Join(reasons, ""))
}

// maxIndices is the number of LibSVM indices up to which they are columns, unless all
// values are 1; more are one list.
const maxIndices = 64

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

// isJSON reports whether the first line of a text begins JSON of any layout.
func isJSON(line string) bool {
	line = strings.TrimSpace(strings.TrimPrefix(line, record.BOM))
	return line == "[" || line == "{" || strings.HasPrefix(strings.TrimLeft(line, "[ "), `{"`)
}

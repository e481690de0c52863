package data

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/data/jsonl"
	"github.com/wdlrun/wdlrun/data/tfrecord"
	"github.com/wdlrun/wdlrun/data/value"
)

// sniff tells the format of a file by how it begins, else by its name; "" for lines
// of fields, whose delimiter is another question.
func (f *file) sniff() (string, error) {
	head, err := f.read(1 << 12)
	if err != nil {
		return "", err
	}
	format := seenIn(head)
	if format == "" && len(bytes.TrimLeft(bytes.TrimPrefix(head, []byte(bom)), " \t\r\n")) > 0 {
		format = namedBy(f.name) // of a damaged file this is all there is
	}
	return format, nil
}

// namedBy is the format that the name of a file promises, of those that are no lines
// of fields; "" if none.
func namedBy(name string) string {
	name = strings.ToLower(name)
	for i := range packings {
		if short, ok := strings.CutSuffix(name, packings[i].suffix); ok {
			name = short
			break
		}
	}
	switch filepath.Ext(name) {
	case ".tfrecord", ".tfrecords", ".tfrec":
		return "tfrecord"
	case ".jsonl", ".ndjson":
		return "jsonl"
	}
	return ""
}

// seenIn tells the format of a file by how it begins, "" if it may be lines of fields.
func seenIn(head []byte) string {
	if bytes.HasPrefix(head, []byte("PAR1")) {
		return "parquet"
	}
	if len(head) >= tfrecord.HeaderBytes {
		if _, err := tfrecord.Header(head[:tfrecord.HeaderBytes]); err == nil {
			return "tfrecord"
		}
	}
	if isObjects(head) {
		return "jsonl"
	}
	line, _, _ := bytes.Cut(head, []byte{'\n'})
	line, _, _ = bytes.Cut(line, []byte{'#'})
	words := strings.Fields(string(line))
	if len(words) < 2 {
		return ""
	}
	for n, format := range map[int]string{1: "libsvm", 2: "libffm"} {
		if !slices.ContainsFunc(words[1:], func(w string) bool { return !isPair(w, n) }) {
			return format
		}
	}
	return ""
}

// SelfDescribed tells the format of files that name their fields themselves, parquet,
// tfrecord or jsonl; "" where one does not, or they differ, or one cannot be read, which
// [Open] then says.
func SelfDescribed(patterns []string) (format string) {
	files, err := resolve(patterns)
	if err != nil {
		return ""
	}
	for i := range files {
		f := &files[i]
		if f.log != nil {
			return ""
		}
		head, err := f.head()
		if err != nil {
			return ""
		}
		if f.packing, err = packingOf(f.name, head); err != nil {
			return ""
		}
		seen, err := f.sniff()
		if err != nil || !NamesFields(seen) || format != "" && seen != format {
			return ""
		}
		format = seen
	}
	return format
}

// WithHeader says how files of text are written that name their fields in a header,
// for whoever knows the fields by name alone. The first file is looked at.
func WithHeader(patterns []string) (src Source, err error) {
	files, err := resolve(patterns)
	if err != nil {
		return src, err
	}
	in, err := Inspect(files[0].name, 0)
	if err != nil {
		return src, err
	}
	if src = in.Source(); src.HasLayout() && !src.Header {
		return src, fmt.Errorf("data: open: %s: its fields have no names: it is %s without a header; write one, or convert the file to a format that names its fields", files[0].name, in.Format)
	}
	return src, nil
}

// isPair tells whether a word is n integers and a number, with colons between.
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
	_, why := parseNumber([]byte(parts[n]))
	return why == ""
}

// inspectTopic looks at the first records of a topic, if they name their fields.
func inspectTopic(path string, f *file, rows int) (*Inspection, error) {
	s, err := f.open()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	const enough = 20
	n, objects, examples := 0, 0, 0
	err = firstUnits(topicFormat{objectFormat{}}, nil, f, s, enough, func(record []byte) error {
		n++
		named := 0
		if jsonl.Names(record, func([]byte) {}) == nil {
			objects++
		} else if tfrecord.Names(record, func([]byte) { named++ }) == nil && named > 0 {
			examples++
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("data: inspect: %s: %w", f.name, err)
	case n > 0 && objects == n:
		return inspectRecords(path, f, "jsonl", topicFormat{objectFormat{}}, rows)
	case n > 0 && examples == n:
		return inspectRecords(path, f, "tfrecord", topicFormat{exampleFormat{}}, rows)
	}
	return nil, fmt.Errorf("data: inspect: %s: a topic does not tell how its records are written, unless each is a JSON object or a tf.Example; -config FILE says it", path)
}

// inspectRecords looks at rows records of a file, or of a range of a topic,
// that is no lines of fields.
func inspectRecords(path string, f *file, name string, form format, rows int) (*Inspection, error) {
	s, err := f.open()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	names, err := form.look(f, s)
	if _, named := namingOf(form); err == nil && named {
		names, err = someNames(form, f, s, rows)
	}
	if err != nil {
		return nil, err
	}
	in := &Inspection{Path: path, Format: name}
	switch name {
	case "libsvm", "libffm":
		var ones bool
		if names, ones, err = numbersIn(form, f, s, rows); err != nil {
			return nil, err
		}
		switch {
		case name == "libsvm" && (ones || len(names) > mostIndices):
			names = []string{"label", "features", "values"}
		case name == "libffm" && !ones:
			names = withValues(names)
		}
	}
	l := &looker{names: names, values: make([][]string, len(names)), missing: make([]int, len(names)), many: make([]bool, len(names))}
	if err := l.read(form, f, s, rows); err != nil {
		return nil, fmt.Errorf("data: inspect: %s: %w", f.name, err)
	}
	if in.Rows = l.rows; in.Rows == 0 {
		return nil, fmt.Errorf("data: inspect: %s: %w", f.name, l.none())
	}
	for i, field := range names {
		c := lookAt(field, l.values[i], float64(l.missing[i])/float64(l.rows))
		c.Many = l.many[i]
		if name == "libffm" && strings.HasSuffix(field, valuesSuffix) && c.Distinct == 1 && c.Examples[0] == "1" {
			continue // which says nothing
		}
		in.Columns = append(in.Columns, c)
	}
	in.guessLabel()
	return in, nil
}

// withValues adds to the label and fields of LibFFM what holds their values, behind each.
func withValues(names []string) (all []string) {
	for i, n := range names {
		if all = append(all, n); i > 0 {
			all = append(all, n+valuesSuffix)
		}
	}
	return all
}

// looker gathers the values of records.
type looker struct {
	names   []string
	values  [][]string
	missing []int
	many    []bool
	rows    int
	bad     int     // records that cannot be used
	flaws   []Fault // the first of them
}

// firstUnits calls each with those of the first rows records that can be read.
func firstUnits(form format, names []string, f *file, s source, rows int, each func(record []byte) error) error {
	return allUnits(form, names, f, s, rows, func(u unit) error {
		if u.flaw != nil {
			return nil
		}
		return each(u.record)
	})
}

// allUnits calls each with the first rows records.
func allUnits(form format, names []string, f *file, s source, rows int, each func(unit) error) error {
	return units(form, names, s, f, each, func(read readBlocks) error {
		_, err := read(cut([]file{*f}), rows)
		return err
	})
}

// someUnits calls each with rows records from all over the file.
func someUnits(form format, names []string, f *file, s source, rows int, each func(unit) error) error {
	return units(form, names, s, f, each, func(read readBlocks) error { return spread(cut([]file{*f}), rows, read) })
}

// readBlocks reads no more than so many records of blocks, and returns how many.
type readBlocks func(blocks []block, rows int) (n int, err error)

// units calls each with the records that which asks for.
func units(form format, names []string, s source, f *file, each func(unit) error, which func(readBlocks) error) error {
	r := form.records(names)
	if c, ok := r.(io.Closer); ok {
		defer c.Close()
	}
	return which(func(blocks []block, rows int) (n int, err error) {
		for i := 0; i < len(blocks) && n < rows; i++ {
			if err := r.begin(s, f, blocks[i], -1, 0); err != nil {
				return n, err
			}
			for n < rows {
				u, err := r.next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					return n, err
				}
				n++
				if err := each(u); err != nil {
					return n, err
				}
			}
		}
		return n, nil
	})
}

const (
	spreads = 16 // places of a file, its beginning aside, in which records are looked at
	compact = 4  // blocks of a file that is not worth it
)

// spread reads so many records of a file: about half from its beginning, or all if
// there are hardly more, and the others from as many places of the rest.
func spread(blocks []block, rows int, read readBlocks) error {
	if len(blocks) <= compact {
		_, err := read(blocks, rows)
		return err
	}
	first, n, half := 0, 0, (rows+1)/2
	for ; first < len(blocks) && n < half; first++ { // whole blocks, if all would fit: nothing is missing then
		some, err := read(blocks[first:first+1], max(half-n, rows/compact))
		if err != nil {
			return err
		}
		n += some
	}
	places := min(spreads, len(blocks)-first)
	if blocks = blocks[first:]; first >= len(blocks) {
		places = 1
	}
	for ; places > 0 && n < rows && len(blocks) > 0; places-- {
		part := blocks[:(len(blocks)+places-1)/places]
		some, err := read(part, (rows-n+places-1)/places)
		if err != nil {
			return err
		}
		n, blocks = n+some, blocks[len(part):]
	}
	return nil
}

func (l *looker) read(form format, f *file, s source, rows int) error {
	d, err := form.decoder(l.names, l.names)
	if err != nil {
		return err
	}
	lists := make([]value.List, len(l.names))
	return someUnits(form, l.names, f, s, rows, func(u unit) error {
		fl := u.flaw
		if fl == nil {
			fl = d.decode(u.record, lists)
		}
		if fl != nil {
			return l.note(form, f, u, fl) // check tells of all
		}
		l.rows++
		for i := range lists {
			if lists[i].Len() == 0 {
				l.missing[i]++
			}
			l.many[i] = l.many[i] || lists[i].Len() > 1
			for k := range lists[i].Len() {
				if text := string(lists[i].Append(nil, k)); text != "" {
					l.values[i] = append(l.values[i], text)
				}
			}
		}
		return nil
	})
}

// firstFlaw says where the first record that cannot be read is, and why; "" if there
// is none.
func firstFlaw(form format, f *file, s source) (why string) {
	_ = allUnits(form, nil, f, s, lookRecords, func(u unit) error {
		if why != "" || u.flaw == nil {
			return nil
		}
		at, err := form.place(f, u.offset)
		at.Want = u.flaw.want
		why = " " + at.Place() + ": " + at.Reason()
		return err
	})
	return why
}

// fewFlaws are told of a file in which there is nothing else.
const fewFlaws = 3

// note keeps the first records that cannot be used.
func (l *looker) note(form format, f *file, u unit, fl *flaw) error {
	if l.bad++; len(l.flaws) == fewFlaws {
		return nil
	}
	at, err := form.place(f, u.offset)
	at.Column, at.Value, at.Want = fl.column, fl.value, fl.want
	l.flaws = append(l.flaws, at)
	return err
}

// none says why there is no record to look at.
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

// mostIndices of LibSVM are the columns of a table, unless all their values are 1; more
// are words of a list.
const mostIndices = 64

// numbersIn are the label and the numbers that begin the words of some records,
// the indices of LibSVM or the fields of LibFFM; ones, that every value is 1.
func numbersIn(form format, f *file, s source, rows int) (names []string, ones bool, err error) {
	seen := map[uint64]bool{}
	ones = true
	err = someUnits(form, nil, f, s, rows, func(u unit) error {
		if u.flaw != nil {
			return nil
		}
		eachNumber(u.record, func(n uint64, word []byte) {
			seen[n] = true
			ones = ones && bytes.HasSuffix(word, []byte(":1"))
		})
		return nil
	})
	numbers := make([]uint64, 0, len(seen))
	for n := range seen {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	names = []string{"label"}
	for _, n := range numbers {
		names = append(names, strconv.FormatUint(n, 10))
	}
	return names, ones, err
}

package data

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/data/tfrecord"
	"github.com/wdlrun/wdlrun/data/value"
)

// sniff tells the format of a file by how it begins; "" for lines of fields,
// whose delimiter is another question.
func (f *file) sniff() (string, error) {
	head, err := f.read(1 << 12)
	if err != nil {
		return "", err
	}
	if bytes.HasPrefix(head, []byte("PAR1")) {
		return "parquet", nil
	}
	if len(head) >= tfrecord.HeaderBytes {
		if _, err := tfrecord.Header(head[:tfrecord.HeaderBytes]); err == nil {
			return "tfrecord", nil
		}
	}
	line, _, _ := bytes.Cut(head, []byte{'\n'})
	line, _, _ = bytes.Cut(line, []byte{'#'})
	words := strings.Fields(string(line))
	if len(words) < 2 {
		return "", nil
	}
	for n, format := range map[int]string{1: "libsvm", 2: "libffm"} {
		if !slices.ContainsFunc(words[1:], func(w string) bool { return !isPair(w, n) }) {
			return format, nil
		}
	}
	return "", nil
}

// SelfDescribed tells the format of files that name their fields themselves, parquet
// or tfrecord; "" where one does not, or they differ, or one cannot be read, which
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
		if err != nil || seen != "parquet" && seen != "tfrecord" || format != "" && seen != format {
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

// inspectRecords looks at the first rows records of a file that is no lines of
// fields.
func inspectRecords(path string, f *file, format string, rows int) (*Inspection, error) {
	src := Source{Format: format}
	form := newFormat(src)
	if err := f.begin(format); err != nil {
		return nil, err
	}
	s, err := f.open()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	names, err := form.look(f, s)
	if err != nil {
		return nil, err
	}
	in := &Inspection{Path: path, Format: format}
	switch format {
	case "libsvm", "libffm":
		var ones bool
		if names, ones, err = numbersIn(form, f, s, rows); err != nil {
			return nil, err
		}
		if format == "libsvm" && (ones || len(names) > mostIndices) {
			names = []string{"label", "features", "values"}
		}
	}
	l := &looker{names: names, values: make([][]string, len(names)), missing: make([]int, len(names)), many: make([]bool, len(names))}
	if err := l.read(form, f, s, rows); err != nil {
		return nil, fmt.Errorf("data: inspect: %s: %w", f.name, err)
	}
	if in.Rows = l.rows; in.Rows == 0 {
		return nil, fmt.Errorf("data: inspect: %s: there are no records", f.name)
	}
	for i, name := range names {
		c := lookAt(name, l.values[i], float64(l.missing[i])/float64(l.rows))
		c.Many = l.many[i]
		in.Columns = append(in.Columns, c)
	}
	in.guessLabel()
	return in, nil
}

// looker gathers the values of the first records.
type looker struct {
	names   []string
	values  [][]string
	missing []int
	many    []bool
	rows    int
}

// firstUnits calls f with the first rows records that can be read.
func firstUnits(form format, names []string, f *file, s source, rows int, each func(record []byte) error) error {
	r := form.records(names)
	if c, ok := r.(io.Closer); ok {
		defer c.Close()
	}
	for _, b := range cut([]file{*f}) {
		if err := r.begin(s, f, b, -1, 0); err != nil {
			return err
		}
		for rows > 0 {
			u, err := r.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if u.flaw != nil {
				continue
			}
			rows--
			if err := each(u.record); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *looker) read(form format, f *file, s source, rows int) error {
	d, err := form.decoder(l.names, l.names)
	if err != nil {
		return err
	}
	lists := make([]value.List, len(l.names))
	return firstUnits(form, l.names, f, s, rows, func(record []byte) error {
		if d.decode(record, lists) != nil {
			return nil // check tells
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

// mostIndices of LibSVM are the columns of a table, unless all their values are 1; more
// are words of a list.
const mostIndices = 64

// numbersIn are the label and the numbers that begin the words of the first records,
// the indices of LibSVM or the fields of LibFFM; ones, that every value is 1.
func numbersIn(form format, f *file, s source, rows int) (names []string, ones bool, err error) {
	seen := map[uint64]bool{}
	ones = true
	err = firstUnits(form, nil, f, s, rows, func(record []byte) error {
		line, _, _ := strings.Cut(string(record), "#")
		for i, w := range strings.Fields(line) {
			if i == 0 {
				continue // the label
			}
			if n, err := strconv.ParseUint(strings.SplitN(w, ":", 2)[0], 10, 64); err == nil {
				seen[n] = true
				ones = ones && strings.HasSuffix(w, ":1")
			}
		}
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

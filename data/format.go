package data

import (
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/data/value"
)

// format is a way to write records. A new one is a type with these methods and
// a line in formats; order, shuffling, resuming, counting and the treatment of
// faulty records are the same for all.
//
//	file ──look──► fields, where the records begin
//	block ──records──► units: the bytes of a record and its place
//	unit ──decoder──► the values of the fields that a schema needs
type format interface {
	// look reads the beginning of a file. It returns the names of the fields,
	// nil if any name may come, and sets f.body.
	look(f *file, s source) (fields []string, err error)
	// records reads records with the fields of these names; it may leave out
	// others. What it holds open is freed by Close, if it has one.
	records(names []string) records
	// decoder decodes the fields of these names, of those that look returned.
	decoder(fields, names []string) (decoder, error)
	// place says where a record is, in the words of the format.
	place(f *file, offset int64) (place Fault, err error)
}

// records reads the records of blocks. It keeps buffers, so it belongs to one
// goroutine.
type records interface {
	// begin goes to the first record of a block or, where offset is not
	// negative, to the one that begins there, with number units before it.
	begin(s source, f *file, b block, offset int64, number int32) error
	// next returns the next record; io.EOF behind the last, with the number of
	// all units. Any other error ends the file.
	next() (unit, error)
}

// unit is one record, or what stands in the place of one.
type unit struct {
	record []byte // valid until the next call
	flaw   *flaw  // the record could not be read, but those behind it can
	offset int64  // where it begins
	end    int64  // where the next one begins
	number int32  // lines or records of the block before it
}

// decoder cuts a record into the values of fields. It belongs to one goroutine.
type decoder interface {
	// decode fills a list per field. Texts are valid as long as record is, and
	// until the next call.
	decode(record []byte, lists []value.List) *flaw
}

// formats are the names that a configuration gives them; the first is the
// default.
var formats = []struct {
	name  string
	about string
	make  func(Source) format
}{
	{"csv", "CSV", func(s Source) format { return newDelimited(s) }},
	{"tsv", "TSV", func(s Source) format { return newDelimited(s) }},
	{"criteo", "TSV in Criteo's layout: label, I1 … I13, C1 … C26", func(s Source) format { return newDelimited(s) }},
	{"tfrecord", "TFRecord of tf.Example", func(Source) format { return exampleFormat{} }},
	{"jsonl", "JSON objects, one a line", func(Source) format { return objectFormat{} }},
	{"parquet", "Parquet, flat and list columns", func(Source) format { return parquetFormat{} }},
	{"libsvm", "LibSVM: label index:value …", func(Source) format { return svmFormat{} }},
	{"libffm", "LibFFM: label field:index:value …", func(Source) format { return svmFormat{fields: true} }},
}

// Formats returns the names of the formats, the default first.
func Formats() []string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.name
	}
	return names
}

// naming are formats whose records name their fields, each those that it has.
type naming interface {
	format
	// names calls each with the fields of a record that can be read.
	names(record []byte, each func(name []byte))
}

// namingOf is such a format, be its records in files or in a topic.
func namingOf(f format) (naming, bool) {
	if topic, ok := f.(topicFormat); ok {
		f = topic.format
	}
	n, ok := f.(naming)
	return n, ok
}

// lookRecords is how many records of a file tell the names of its fields.
const lookRecords = 1000

// firstNames joins the names of the fields in the first records of a file. of is the
// format as newFormat or formatFor made it.
func firstNames(of format, f *file, s source) (names []string, err error) {
	n := 0
	g := gatherNames(of)
	err = allUnits(of, nil, f, s, lookRecords, func(u unit) error {
		n++
		return g.unit(u)
	})
	f.told = n < lookRecords
	return g.all(), err
}

// someNames joins those in the records of a sample.
func someNames(of format, s *sample) (names []string, err error) {
	g := gatherNames(of)
	err = s.units(of.records(nil), func(_ int, u unit) error { return g.unit(u) })
	return g.all(), err
}

// namesGathered are names of fields, in the order in which they come.
type namesGathered struct {
	naming
	seen  map[string]bool
	names []string
}

func gatherNames(of format) *namesGathered {
	form, _ := namingOf(of)
	return &namesGathered{naming: form, seen: map[string]bool{}}
}

func (g *namesGathered) unit(u unit) error {
	if u.flaw != nil {
		return nil
	}
	g.naming.names(u.record, func(name []byte) {
		if !g.seen[string(name)] {
			g.seen[string(name)] = true
			g.names = append(g.names, string(name))
		}
	})
	return nil
}

func (g *namesGathered) all() []string {
	if _, ok := g.naming.(exampleFormat); ok {
		slices.Sort(g.names) // those of a map, whose order means nothing
	}
	return g.names
}

// newFormat is that of a source whose format is valid.
func newFormat(s Source) format {
	for _, f := range formats {
		if f.name == s.formatName() {
			return f.make(s)
		}
	}
	panic(fmt.Sprintf("data: format %q was not validated", s.Format))
}

// formatName is the name of the source's format.
func (s Source) formatName() string {
	if s.Format == "" {
		return formats[0].name
	}
	return s.Format
}

// HasLayout tells whether the format leaves delimiter, header, names of fields
// and comment mark to the other settings; where not, they must not be given.
func (s Source) HasLayout() bool {
	return s.formatName() == "csv" || s.formatName() == "tsv"
}

// NamesFields tells whether files of the format name their fields themselves,
// wherever they stand.
func NamesFields(format string) bool {
	return format == "parquet" || format == "tfrecord" || format == "jsonl"
}

// CriteoFields are the fields of Criteo's display advertising logs.
func CriteoFields() []string {
	names := []string{"label"}
	for i := 1; i <= 13; i++ {
		names = append(names, fmt.Sprintf("I%d", i))
	}
	for i := 1; i <= 26; i++ {
		names = append(names, fmt.Sprintf("C%d", i))
	}
	return names
}

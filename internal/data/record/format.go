package record

import (
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Format is a way to write records. A new one is a type with these methods and
// a line in formats; order, shuffling, resuming, counting and the treatment of
// faulty records are the same for all.
//
//	file ──look──► fields, where the records begin
//	block ──records──► units: the bytes of a record and its place
//	unit ──decoder──► the values of the fields that a schema needs
type Format interface {
	// Look reads the beginning of a file. It returns the names of the fields,
	// nil if any name may come, and sets f.body.
	Look(f *File, s Content) (fields []string, err error)
	// Records reads records with the fields of these names; it may leave out
	// others. What it holds open is freed by Close, if it has one.
	Records(names []string) Records
	// Decoder decodes the fields of these names, of those that look returned.
	Decoder(fields, names []string) (Decoder, error)
	// Place says where a record is, in the words of the format.
	Place(f *File, offset int64) (place Fault, err error)
}

// Records reads the records of blocks. It keeps buffers, so it belongs to one
// goroutine.
type Records interface {
	// Begin goes to the first record of a block or, where offset is not
	// negative, to the one that begins there, with number units before it.
	Begin(s Content, f *File, b Block, offset int64, number int32) error
	// Next returns the next record; io.EOF behind the last, with the number of
	// all units. Any other error ends the file.
	Next() (Unit, error)
}

// Unit is one record, or what replaces one.
type Unit struct {
	Record []byte // valid until the next call
	Flaw   *Flaw  // the record could not be read, but those behind it can
	Offset int64  // where it begins
	End    int64  // where the next one begins
	Number int32  // lines or records of the block before it
}

// Decoder cuts a record into the values of fields. It belongs to one goroutine.
type Decoder interface {
	// Decode fills a list per field. Texts are valid as long as record is, and
	// until the next call.
	Decode(record []byte, lists []value.List) *Flaw
}

// naming are formats whose records name their fields, each those that it has.
type naming interface {
	Format
	// names calls each with the fields of a record that can be read.
	names(record []byte, each func(name []byte))
}

// namingOf is such a format, be its records in files or in a topic.
func namingOf(f Format) (naming, bool) {
	if topic, ok := f.(topicFormat); ok {
		f = topic.Format
	}
	n, ok := f.(naming)
	return n, ok
}

// Named reports whether records of a format name their fields.
func Named(f Format) bool {
	_, named := namingOf(f)
	return named
}

// lookRecords is how many records of a file tell the names of its fields.
const lookRecords = 1000

// firstNames joins the names of the fields in the first records of a file. of is the
// format as NewFormat or formatFor made it.
func firstNames(of Format, f *File, s Content) (names []string, err error) {
	n := 0
	g := gatherNames(of)
	err = allUnits(of, nil, f, s, lookRecords, func(u Unit) error {
		n++
		return g.unit(u)
	})
	f.told = n < lookRecords
	return g.all(), err
}

// SomeNames joins those in the records of a sample.
func SomeNames(of Format, s *Sample) (names []string, err error) {
	g := gatherNames(of)
	err = s.Units(of.Records(nil), func(_ int, u Unit) error { return g.unit(u) })
	return g.all(), err
}

// namesGathered are names of fields, in the order in which they come.
type namesGathered struct {
	naming
	seen  map[string]bool
	names []string
}

func gatherNames(of Format) *namesGathered {
	form, _ := namingOf(of)
	return &namesGathered{naming: form, seen: map[string]bool{}}
}

func (g *namesGathered) unit(u Unit) error {
	if u.Flaw != nil {
		return nil
	}
	g.naming.names(u.Record, func(name []byte) {
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

// NewFormat is that of a source whose format is valid.
func NewFormat(s schema.Source) Format {
	switch s.FormatName() {
	case "csv", "tsv", "criteo":
		return NewDelimited(s)
	case "tfrecord":
		return exampleFormat{}
	case "jsonl":
		return objectFormat{}
	case "parquet":
		return parquetFormat{}
	case "libsvm", "libffm":
		return svmFormat{fields: s.Format == "libffm"}
	}
	panic(fmt.Sprintf("data: format %q was not validated", s.Format))
}

// firstFlaw says where the first record that cannot be read is, and why; "" if there
// is none.
func firstFlaw(form Format, f *File, s Content) (why string) {
	_ = allUnits(form, nil, f, s, lookRecords, func(u Unit) error {
		if why != "" || u.Flaw == nil {
			return nil
		}
		at, err := form.Place(f, u.Offset)
		at.Want = u.Flaw.Want
		why = " " + at.Place() + ": " + at.Reason()
		return err
	})
	return why
}

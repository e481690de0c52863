package record

import (
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Format is a file format of records. To add one, add a type with these methods and a line
// in formats. Order, shuffling, resuming, counting and the treatment of faulty records are
// the same for all.
//
//	file ──look──► fields, where the records begin
//	block ──records──► units: the bytes of a record and its place
//	unit ──decoder──► the values of the fields that a schema needs
type Format interface {
	// Look reads the beginning of a file and sets f.body. It returns the names of the
	// fields, or nil if any name is possible.
	Look(f *File, s Content) (fields []string, err error)
	// Records returns a reader of records with the fields of these names; it may leave out
	// others. The caller closes it if it is an io.Closer.
	Records(names []string) Records
	// Decoder returns a decoder of the fields in names; fields are those that Look returned.
	Decoder(fields, names []string) (Decoder, error)
	// Place returns the place of a record, in the terms of the format.
	Place(f *File, offset int64) (place Fault, err error)
}

// Records reads the records of blocks. It belongs to one goroutine.
type Records interface {
	// Begin positions the reader at the first record of a block. If offset is not negative,
	// it positions it at the record that begins there, which follows number units.
	Begin(s Content, f *File, b Block, offset int64, number int32) error
	// Next returns the next record. After the last it returns io.EOF, with the number of all
	// units. After any other error the file cannot be read further.
	Next() (Unit, error)
}

// Unit is one record, or the flaw of an unreadable one.
type Unit struct {
	Record []byte // valid until the next call
	Flaw   *Flaw  // the record cannot be read, but the following ones can
	Offset int64  // of its beginning
	Number int32  // lines or records of the block before it
	Inner  int32  // line breaks in it: if it is faulty, it may contain as many other records
	Rest   bool   // Begin cannot position a reader at it, but at the record before it without Rest, which has the same Offset
}

// Decoder splits a record into the values of fields. It belongs to one goroutine.
type Decoder interface {
	// Decode fills one list per field. Texts are valid while record is, until the next call.
	Decode(record []byte, lists []value.List) *Flaw
}

// naming is a format whose records name their fields.
type naming interface {
	Format
	// names calls each with the readable fields of a record.
	names(record []byte, each func(name []byte))
}

// namingOf returns f, or the format of a topic's records, as a naming.
func namingOf(f Format) (naming, bool) {
	if topic, ok := f.(topicFormat); ok {
		f = topic.Format
	}
	n, ok := f.(naming)
	return n, ok
}

// Named reports whether the records of a format name their fields.
func Named(f Format) bool {
	_, named := namingOf(f)
	return named
}

// lookRecords is the number of records of a file that are read for the names of its
// fields.
const lookRecords = 1000

// firstNames returns the union of the names of fields in the first records of a file. of
// is a format returned by NewFormat or formatFor.
func firstNames(of Format, f *File, s Content) (names []string, err error) {
	n := 0
	g := gatherNames(of)
	err = allUnits(of, nil, f, s, lookRecords, func(u Unit) error {
		n++
		return g.unit(u)
	})
	if f.allRead = n < lookRecords; n == 0 && err == nil {
		err = ErrNoLine
	}
	return g.all(), err
}

// SomeNames returns the union of the names of fields in the records of a sample.
func SomeNames(of Format, s *Sample) (names []string, err error) {
	g := gatherNames(of)
	err = s.Units(of.Records(nil), func(_ int, u Unit) error { return g.unit(u) })
	return g.all(), err
}

// namesGathered collects names of fields, in order of occurrence.
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
		slices.Sort(g.names) // they come from a map and have no order
	}
	return g.names
}

// NewFormat returns the format of a valid source.
func NewFormat(s schema.Source) Format {
	switch s.FormatName() {
	case "csv", "tsv", "criteo":
		return NewDelimited(s)
	case "tfrecord":
		return exampleFormat{}
	case "jsonl":
		return objectFormat{}
	case "parquet", "arrow", "avro", "protobuf":
		return typedFormat{s.Format}
	case "libsvm", "libffm":
		svm := svmFormat{fields: s.Format == "libffm"}
		if len(s.Fields) > 0 {
			svm.partitions = &s.Fields
		}
		return svm
	}
	panic(fmt.Sprintf("data: format %q was not validated", s.Format))
}

// FirstFlaw returns place and reason of the first unreadable record; "" if there is none.
func FirstFlaw(form Format, f *File, s Content) (why string) {
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

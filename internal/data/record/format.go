package record

import (
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
	Stored []byte // the record as in the file, if a reader has changed Record; valid as long
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
	// names calls each with the readable fields of a record. valued is false for a field that may
	// have no value and be no field: one whose place a group of fields has in other records.
	names(record []byte, each func(name []byte, valued bool))
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

// topicFormat is a format of the records of a topic: a line of a text format, a JSON
// object, a tf.Example without the frame of a TFRecord, or a message.
type topicFormat struct {
	Format
	explode string   // member whose elements are records; "": none
	fields  []string // of lines, in their order
}

// exampleFormat is TFRecord of tf.Example. A block is a byte range; its first record is
// found by the checksum of its header.
type exampleFormat struct{}

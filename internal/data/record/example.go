package record

import (
	"fmt"
	"io"

	"github.com/wdlrun/wdlrun/internal/data/tfrecord"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Look returns the union of the names of features in the first records.
func (e exampleFormat) Look(f *File, s Content) ([]string, error) {
	names, err := firstNames(e, f, s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	case len(names) == 0:
		if why := firstFault(e, f, s); why != nil {
			return nil, fmt.Errorf("%s: offset 0: %w", f.Name, why)
		}
		return nil, fmt.Errorf("%s: none of its first records is a tf.Example; is it TFRecord?%s", f.Name, FirstFlaw(e, f, s))
	}
	return names, nil
}

// firstFault returns the fault of the first record, nil if there is none.
func firstFault(e exampleFormat, f *File, s Content) (why error) {
	if err := FirstUnits(e, nil, f, s, 1, func(record []byte) error {
		why = tfrecord.Names(record, func([]byte) {})
		return nil
	}); err != nil {
		return nil // reported as a flaw
	}
	return why
}

var _ naming = exampleFormat{}

func (exampleFormat) names(record []byte, each func([]byte, bool)) {
	_ = tfrecord.Names(record, func(name []byte) { each(name, true) }) // the scan reports faults
}

func (exampleFormat) Records([]string) Records { return &exampleRecords{} }

func (exampleFormat) Decoder(_, names []string) (Decoder, error) {
	return exampleDecoder{tfrecord.NewDecoder(names)}, nil
}

func (exampleFormat) Place(f *File, offset int64) (Fault, error) {
	return Fault{File: f.Name, Offset: offset}, nil
}

type exampleDecoder struct{ *tfrecord.Decoder }

func (d exampleDecoder) Decode(record []byte, lists []value.List) *Flaw {
	if err := d.Decoder.Decode(record, lists); err != nil {
		return &Flaw{Field: -1, Want: err.Error()}
	}
	return nil
}

// exampleRecords reads frames.
type exampleRecords struct {
	buffer
	number int32
	done   bool // the end of the block is reached
	lists  tfrecord.Lists
	open   int64 // offset of the record of several examples that lists has more of; −1: none
	carrier
}

func (r *exampleRecords) Begin(s Content, f *File, b Block, offset int64, number int32) error {
	r.number, r.done, r.of, r.open = number, false, f.carried, -1
	if offset >= 0 {
		r.seek(s, f.size, offset, b.Hi)
		return nil
	}
	r.seek(s, f.size, b.Lo, b.Hi)
	if b.Lo == 0 {
		return nil
	}
	return r.search()
}

// search skips to the next possible beginning of a frame, or to the end of the block.
func (r *exampleRecords) search() error {
	for r.off < r.hi {
		b, err := r.peek(readBytes)
		if err != nil {
			return err
		}
		i := tfrecord.Find(b)
		if i >= 0 {
			r.skip(int(min(int64(i), r.hi-r.off)))
			return nil
		}
		if len(b) < readBytes { // the end of the file
			r.skip(len(b))
			return nil
		}
		r.skip(len(b) - tfrecord.HeaderBytes + 1)
	}
	return nil
}

// Next reads a frame. Damage is returned as a separate unit. After a damaged length it
// searches for the next frame. It also checks the first frame behind the block, because
// the next block would skip damage at its beginning.
func (r *exampleRecords) Next() (Unit, error) {
	if r.open >= 0 {
		if record, ok := r.lists.Next(); ok {
			r.number++
			return Unit{Record: r.join(record), Offset: r.open, Number: r.number - 1, Rest: true}, nil
		}
		r.open = -1
	}
	u := Unit{Offset: r.off, Number: r.number}
	if r.done {
		return u, io.EOF
	}
	header, err := r.peek(tfrecord.HeaderBytes)
	if err != nil {
		return u, err
	}
	if len(header) == 0 {
		return u, io.EOF
	}
	var n int
	if len(header) < tfrecord.HeaderBytes {
		err = fmt.Errorf("the file ends within a record: %d bytes are left", len(header))
	} else {
		n, err = tfrecord.Header(header)
	}
	switch inside := r.off < r.hi; {
	case err != nil:
		return r.lost(u, err.Error())
	case !inside:
		return u, io.EOF
	}
	frame, err := r.peek(n + tfrecord.Overhead)
	if err != nil {
		return u, err
	}
	if len(frame) < n+tfrecord.Overhead {
		return r.lost(u, fmt.Sprintf("the file ends within a record: it has %d bytes of %d", len(frame), n+tfrecord.Overhead))
	}
	u.Record = frame[tfrecord.HeaderBytes : tfrecord.HeaderBytes+n]
	if err := tfrecord.Verify(u.Record, frame[tfrecord.HeaderBytes+n:]); err != nil {
		u.Flaw = &Flaw{Field: -1, Want: err.Error()}
	} else {
		r.set(&u)
	}
	r.number++
	r.skip(len(frame))
	return u, nil
}

// set sets the record of u to that of the frame, or to the first of its examples.
func (r *exampleRecords) set(u *Unit) {
	if !r.lists.Begin(u.Record) {
		u.Record = r.join(u.Record)
		return
	}
	record, ok := r.lists.Next()
	if !ok {
		u.Flaw = &Flaw{Field: -1, Want: "the list has a context and no example"}
		return
	}
	u.Record, r.open = r.join(record), u.Offset
}

// lost continues after a position where no complete frame begins. Damage that reaches the
// end of the block is reported once, by this block.
func (r *exampleRecords) lost(u Unit, why string) (Unit, error) {
	r.number++
	if r.off < r.hi {
		r.skip(1)
		if err := r.search(); err != nil {
			return u, err
		}
		why += fmt.Sprintf("; %d bytes are passed over", r.off-u.Offset)
	}
	r.done = r.off >= r.hi
	u.Flaw = &Flaw{Field: -1, Want: why}
	return u, nil
}

// ExampleDecoder returns the decoder of tf.Examples in d. It returns false if d decodes
// another format.
func ExampleDecoder(d Decoder) (*tfrecord.Decoder, bool) {
	x, ok := d.(exampleDecoder)
	return x.Decoder, ok
}

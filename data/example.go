package data

import (
	"fmt"
	"io"

	"github.com/wdlrun/wdlrun/data/tfrecord"
	"github.com/wdlrun/wdlrun/data/value"
)

// exampleFormat is TFRecord of tf.Example. A block is a byte range; its first
// record is found by the checksum of its header.
type exampleFormat struct{}

// look joins the names of features in the first records.
func (e exampleFormat) look(f *file, s source) ([]string, error) {
	names, err := firstNames(e, f, s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("data: open: %s: %w", f.name, err)
	case len(names) == 0:
		return nil, fmt.Errorf("data: open: %s: none of its first records is a tf.Example; is it TFRecord?%s", f.name, firstFlaw(e, f, s))
	}
	return names, nil
}

func (exampleFormat) names(record []byte, each func([]byte)) {
	_ = tfrecord.Names(record, each) // the scan tells
}

func (exampleFormat) records([]string) records { return &exampleRecords{} }

func (exampleFormat) decoder(_, names []string) (decoder, error) {
	return exampleDecoder{tfrecord.NewDecoder(names)}, nil
}

func (exampleFormat) place(f *file, offset int64) (Fault, error) {
	return Fault{File: f.name, Offset: offset}, nil
}

type exampleDecoder struct{ *tfrecord.Decoder }

func (d exampleDecoder) decode(record []byte, lists []value.List) *flaw {
	if err := d.Decode(record, lists); err != nil {
		return &flaw{field: -1, want: err.Error()}
	}
	return nil
}

// exampleRecords reads frames.
type exampleRecords struct {
	buffer
	number int32
	done   bool // nothing more of the block
}

func (r *exampleRecords) begin(s source, f *file, b block, offset int64, number int32) error {
	r.number, r.done = number, false
	if offset >= 0 {
		r.seek(s, f.size, offset, b.hi)
		return nil
	}
	r.seek(s, f.size, b.lo, b.hi)
	if b.lo == 0 {
		return nil
	}
	return r.search()
}

// search goes to the next place where a frame can begin, or to the end of the
// block.
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

// next reads a frame. What is damaged is a unit of its own; where the length is,
// the next frame is searched for. A frame behind the block's last is looked at,
// for the next block would pass over damage at its beginning.
func (r *exampleRecords) next() (unit, error) {
	u := unit{offset: r.off, number: r.number}
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
	u.record = frame[tfrecord.HeaderBytes : tfrecord.HeaderBytes+n]
	if err := tfrecord.Verify(u.record, frame[tfrecord.HeaderBytes+n:]); err != nil {
		u.flaw = &flaw{field: -1, want: err.Error()}
	}
	r.number++
	r.skip(len(frame))
	u.end = r.off
	return u, nil
}

// lost goes on behind a place where no whole frame begins. Damage that reaches
// the end of the block is told once, by this block.
func (r *exampleRecords) lost(u unit, why string) (unit, error) {
	r.number++
	if r.off < r.hi {
		r.skip(1)
		if err := r.search(); err != nil {
			return u, err
		}
		why += fmt.Sprintf("; %d bytes are passed over", r.off-u.offset)
	}
	r.done = r.off >= r.hi
	u.flaw, u.end = &flaw{field: -1, want: why}, r.off
	return u, nil
}

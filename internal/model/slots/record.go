package slots

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Piece is a slot that counts and the attempt that computed it.
type Piece struct {
	Slot, Attempt int
	Batch         Batch
}

// Record is one commit decision. A machine can continue from it.
type Record struct {
	Step    int64
	Leased  int     // slots of the step, counted or not
	Pieces  []Piece // the commit set, by slot
	Samples int64   // samples of the commit set: the divisor of the mean gradient
	Queue   Queue   // queue after the step
}

// The format of a record in a log. Integers are uvarints unless a width is given.
//
//	record   step │ leased │ 0 (1 byte) │ pieces │ samples │ queue
//	pieces   count, then for each: slot │ attempt │ batch
//	batch    epoch │ first row │ rows
//	queue    epoch │ total │ size │ next │ count, then for each: first row │ tries
//
// Every count is checked against its limit and the remaining bytes before memory is
// allocated. Remaining bytes at the end are an error.

// appendRecord appends the encoding of r.
func appendRecord(b []byte, r Record) []byte {
	b = uvarints(b, r.Step, int64(r.Leased))
	b = appendPieces(append(b, 0), r.Pieces)
	return appendQueue(uvarints(b, r.Samples), r.Queue)
}

// appendQueue appends the encoding of q.
func appendQueue(b []byte, q Queue) []byte {
	b = uvarints(b, q.Epoch, q.Total, q.Size, q.Next, int64(len(q.Late)))
	for _, it := range q.Late {
		b = uvarints(b, it.First, int64(it.Tries))
	}
	return b
}

func appendPieces(b []byte, ps []Piece) []byte {
	b = uvarints(b, int64(len(ps)))
	for _, p := range ps {
		b = appendBatch(uvarints(b, int64(p.Slot), int64(p.Attempt)), p.Batch)
	}
	return b
}

func appendBatch(b []byte, x Batch) []byte { return uvarints(b, x.Epoch, x.First, x.Rows) }

// uvarints appends non-negative numbers.
func uvarints(b []byte, xs ...int64) []byte {
	for _, x := range xs {
		b = binary.AppendUvarint(b, uint64(x))
	}
	return b
}

// parseRecord decodes a record that fills b.
func parseRecord(b []byte) (Record, error) {
	d := decoder{b: b}
	r := d.record()
	return r, d.end("record")
}

// decoder decodes numbers from b until the first fault.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
	d.b = nil
}

var errShort = errors.New("it ends too early")

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail("%w", errShort)
		return 0
	}
	x := d.b[0]
	d.b = d.b[1:]
	return x
}

func (d *decoder) uvarint(what string) uint64 {
	x, n := binary.Uvarint(d.b)
	switch {
	case n == 0:
		d.fail("%w", errShort)
		return 0
	case n < 0 || n > 1 && d.b[n-1] == 0:
		d.fail("%s is not a number in its shortest form", what)
		return 0
	}
	d.b = d.b[n:]
	return x
}

func (d *decoder) number(what string, most int64) int64 {
	x := d.uvarint(what)
	if x > uint64(most) {
		d.fail("%s %d is above %d", what, x, most)
		return 0
	}
	return int64(x)
}

// count decodes the length of a list whose items take at least size bytes each.
func (d *decoder) count(what string, most int64, size int) int {
	n := d.number("count of "+what, most)
	if n*int64(size) > int64(len(d.b)) {
		d.fail("%d %s in %d bytes", n, what, len(d.b))
		return 0
	}
	return int(n)
}

func (d *decoder) batch() Batch {
	return Batch{d.number("epoch", MaxRows), d.number("first row", MaxRows), d.number("rows", MaxRows)}
}

func (d *decoder) pieces(most int64) []Piece {
	n := d.count("pieces", most, 5)
	if n == 0 {
		return nil
	}
	ps := make([]Piece, n)
	for i := range ps {
		ps[i].Slot = int(d.number("slot", MaxSlots-1))
		ps[i].Attempt = int(d.number("attempt", maxTries))
		ps[i].Batch = d.batch()
	}
	return ps
}

func (d *decoder) record() (r Record) {
	r.Step = d.number("step", maxStep)
	r.Leased = int(d.number("slots", MaxSlots))
	if x := d.byte(); x != 0 {
		d.fail("a reserved byte is %d", x)
	}
	r.Pieces = d.pieces(MaxSlots)
	last := -1
	for _, p := range r.Pieces {
		if p.Slot <= last || p.Slot >= r.Leased {
			d.fail("slot %d of %d follows slot %d", p.Slot, r.Leased, last)
			break
		}
		last = p.Slot
	}
	r.Samples = d.number("samples", MaxRows)
	r.Queue = d.queue()
	return r
}

func (d *decoder) queue() (q Queue) {
	q.Epoch, q.Total, q.Size = d.number("epoch", MaxRows), d.number("rows", MaxRows), d.number("microbatch", MaxRows)
	q.Next = d.number("next row", MaxRows)
	if n := d.count("late microbatches", MaxSlots, 2); n > 0 {
		q.Late = make([]Item, n)
	}
	for i := range q.Late {
		q.Late[i].First = d.number("first row", MaxRows)
		q.Late[i].Batch = q.batch(q.Late[i].First)
		q.Late[i].Tries = int(d.number("tries", maxTries))
	}
	if d.err == nil {
		if err := q.Validate(); err != nil {
			d.fail("%w", err)
		}
	}
	return q
}

func (d *decoder) end(what string) error {
	if d.err == nil && len(d.b) > 0 {
		d.fail("%d bytes follow it", len(d.b))
	}
	if d.err != nil {
		return fmt.Errorf("slots: %s: %w", what, d.err)
	}
	return nil
}

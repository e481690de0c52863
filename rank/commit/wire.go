package commit

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The wire form of a message; integers are uvarints unless a width is given:
//
//	version (1 byte) │ kind (1 byte) │ from+1 │ to+1 │ term │ step │ slot │ attempt │ body
//
// and the body by kind:
//
//	Lease    batch │ count, then owners ascending, each as the gap to the one before
//	Push     batch │ digest (8 bytes)
//	Pull     dense (1 byte)
//	Rows     dense (1 byte) │ digest (8 bytes)
//	Ready    done (1 byte) │ failed (1 byte)
//	State    digest (8 bytes) │ record │ pieces
//	Commit   record
//	Fenced   term that rules
//	Stale    term that rules │ failed (1 byte)
//
//	batch    epoch │ first row │ rows
//	pieces   count, then for each: slot │ attempt │ batch
//	record   step │ leased │ cut (1 byte) │ pieces │ samples │ queue
//	queue    epoch │ total │ size │ next │ count, then for each: first row │ tries
//
// Every count is held against its limit and against the bytes that are left
// before anything is allocated; bytes left over are an error.
const wireVersion = 1

// AppendMessage appends the wire form of m to b.
func AppendMessage(b []byte, m Message) []byte {
	b = append(b, wireVersion, byte(m.Kind))
	b = uvarints(b, int64(m.From)+1, int64(m.To)+1)
	b = binary.AppendUvarint(b, uint64(m.Tag.Term))
	b = uvarints(b, m.Tag.Step, int64(m.Tag.Slot), int64(m.Tag.Attempt))
	switch m.Kind {
	case Lease:
		b = appendBatch(b, m.Batch)
		b = uvarints(b, int64(len(m.Owners)))
		last := 0
		for _, o := range m.Owners {
			b = uvarints(b, int64(o-last))
			last = o
		}
	case Push:
		b = binary.LittleEndian.AppendUint64(appendBatch(b, m.Batch), m.Digest)
	case Pull:
		b = appendBool(b, m.Dense)
	case Rows:
		b = binary.LittleEndian.AppendUint64(appendBool(b, m.Dense), m.Digest)
	case Ready:
		b = appendBool(append(b, m.Done), m.Failed)
	case State:
		b = binary.LittleEndian.AppendUint64(b, m.Digest)
		b = appendPieces(AppendRecord(b, *m.Record), m.Staged)
	case Commit:
		b = AppendRecord(b, *m.Record)
	case Fenced:
		b = binary.AppendUvarint(b, uint64(m.Rules))
	case Stale:
		b = appendBool(binary.AppendUvarint(b, uint64(m.Rules)), m.Failed)
	}
	return b
}

// AppendRecord appends the wire form of r, which is also its form in checkpoints.
func AppendRecord(b []byte, r Record) []byte {
	b = uvarints(b, r.Step, int64(r.Leased))
	b = appendPieces(appendBool(b, r.Cut), r.Pieces)
	return AppendQueue(uvarints(b, r.Samples), r.Queue)
}

// AppendQueue appends the wire form of q.
func AppendQueue(b []byte, q Queue) []byte {
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

func appendBool(b []byte, x bool) []byte {
	if x {
		return append(b, 1)
	}
	return append(b, 0)
}

// uvarints appends numbers that are not negative.
func uvarints(b []byte, xs ...int64) []byte {
	for _, x := range xs {
		b = binary.AppendUvarint(b, uint64(x))
	}
	return b
}

// ParseMessage reads one message that fills b.
func ParseMessage(b []byte) (Message, error) {
	d := decoder{b: b}
	var m Message
	if v := d.byte(); v != wireVersion && d.err == nil {
		return m, fmt.Errorf("commit: message: version %d, this program speaks %d: start the same program everywhere", v, wireVersion)
	}
	m.Kind = Kind(d.byte())
	m.From, m.To = int(d.number("from", MaxRanks))-1, int(d.number("to", MaxRanks))-1
	m.Tag.Term = Term(d.uvarint("term"))
	m.Tag.Step = d.number("step", maxStep)
	m.Tag.Slot = int(d.number("slot", MaxSlots-1))
	m.Tag.Attempt = int(d.number("attempt", maxTries))
	d.body(&m)
	return m, d.end("message")
}

func (d *decoder) body(m *Message) {
	switch m.Kind {
	case Lease:
		m.Batch = d.batch()
		m.Owners = make([]int, d.count("owners", MaxRanks, 1))
		last := 0
		for i := range m.Owners {
			last += int(d.number("owner", MaxRanks))
			m.Owners[i] = last
		}
		if last >= MaxRanks {
			d.fail("owner %d is beyond %d", last, MaxRanks-1)
		}
	case Push:
		m.Batch, m.Digest = d.batch(), d.fixed()
	case Pull:
		m.Dense = d.bool()
	case Rows:
		m.Dense, m.Digest = d.bool(), d.fixed()
	case Ready:
		m.Done, m.Failed = d.byte(), d.bool()
	case State:
		m.Digest = d.fixed()
		r := d.record()
		m.Record, m.Staged = &r, d.pieces(maxStaged)
	case Commit:
		r := d.record()
		m.Record = &r
	case Fenced:
		m.Rules = Term(d.uvarint("term that rules"))
	case Stale:
		m.Rules, m.Failed = Term(d.uvarint("term that rules")), d.bool()
	case Ask, Cancel, Withdraw, Staged, Applied:
	default:
		d.fail("kind %d is not known", m.Kind)
	}
}

// ParseRecord reads a record that fills b.
func ParseRecord(b []byte) (Record, error) {
	d := decoder{b: b}
	r := d.record()
	return r, d.end("record")
}

// ParseQueue reads a queue that fills b.
func ParseQueue(b []byte) (Queue, error) {
	d := decoder{b: b}
	q := d.queue()
	return q, d.end("queue")
}

// decoder reads numbers off b until the first fault.
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

func (d *decoder) bool() bool {
	x := d.byte()
	if x > 1 {
		d.fail("a flag is %d", x)
	}
	return x == 1
}

func (d *decoder) fixed() uint64 {
	if len(d.b) < 8 {
		d.fail("%w", errShort)
		return 0
	}
	x := binary.LittleEndian.Uint64(d.b)
	d.b = d.b[8:]
	return x
}

func (d *decoder) uvarint(what string) uint64 {
	x, n := binary.Uvarint(d.b)
	switch {
	case n == 0:
		d.fail("%w", errShort)
		return 0
	case n < 0 || n > 1 && d.b[n-1] == 0:
		d.fail("%s is no number in its shortest form", what)
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

// count reads the length of a list whose items take at least size bytes each.
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
	r.Cut = d.bool()
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
		return fmt.Errorf("commit: %s: %w", what, d.err)
	}
	return nil
}

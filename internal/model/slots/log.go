package slots

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// The format of the log of commit sets, from which a run can be replayed:
//
//	"WDLC" │ version (1 byte) │ length of the first record, then that record
//	per step: head │ if some slots did not count: how many, then each as a gap
//
// head is 4·slots + 2·(not all count) + (an epoch began). All numbers are uvarints. A step
// takes 1 to 3 bytes if all slots count, and a few more for each that does not. The
// microbatches are not stored: the reader computes them from the queue, as the machine did.
const logMagic = "WDLC\x01"

// maxRecordBytes bounds the size of a record with MaxSlots pieces and late microbatches.
const maxRecordBytes = 1 << 20

// AppendLogHeader appends the start of a log: the record from which a run starts.
func AppendLogHeader(b []byte, start Record) []byte {
	r := appendRecord(nil, start)
	return append(uvarints(append(b, logMagic...), int64(len(r))), r...)
}

// AppendLog appends the step r, which follows the record before.
func AppendLog(b []byte, before, r Record) []byte {
	var missing []int
	for slot, i := 0, 0; slot < r.Leased; slot++ {
		if i < len(r.Pieces) && r.Pieces[i].Slot == slot {
			i++
		} else {
			missing = append(missing, slot)
		}
	}
	head := int64(r.Leased) << 2
	if len(missing) > 0 {
		head |= 2
	}
	if before.Queue.Left() == 0 {
		head |= 1
	}
	b = uvarints(b, head)
	if len(missing) > 0 {
		b = uvarints(b, int64(len(missing)))
	}
	last := 0
	for _, s := range missing {
		b = uvarints(b, int64(s-last))
		last = s
	}
	return b
}

// LogReader reads a log step by step.
type LogReader struct {
	r      *bufio.Reader
	record Record
}

// NewLogReader returns a reader of a log and reads its first record.
func NewLogReader(r io.Reader) (*LogReader, error) {
	l := &LogReader{r: bufio.NewReader(r)}
	magic := make([]byte, len(logMagic))
	if _, err := io.ReadFull(l.r, magic); err != nil || string(magic) != logMagic {
		return nil, fmt.Errorf("slots: log: it does not begin as a log of this version")
	}
	n, err := binary.ReadUvarint(l.r)
	if err != nil || n > maxRecordBytes {
		return nil, fmt.Errorf("slots: log: first record of %d bytes, at most %d: %w", n, maxRecordBytes, err)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(l.r, b); err != nil {
		return nil, fmt.Errorf("slots: log: first record: %w", err)
	}
	if l.record, err = parseRecord(b); err != nil {
		return nil, fmt.Errorf("slots: log: %w", err)
	}
	return l, nil
}

// Record returns the record read last; before the first Next, the one from which the run
// started.
func (l *LogReader) Record() Record { return l.record }

// Next returns the next step, or io.EOF at the end of the log. For an incomplete last step
// the error is io.ErrUnexpectedEOF.
func (l *LogReader) Next() (Record, error) {
	head, err := binary.ReadUvarint(l.r)
	if err == io.EOF {
		return Record{}, io.EOF
	}
	fail := func(format string, args ...any) (Record, error) {
		return Record{}, fmt.Errorf("slots: log: step %d: %w", l.record.Step+1, fmt.Errorf(format, args...))
	}
	if err != nil {
		return fail("%w", err)
	}
	q, leased := l.record.Queue, int(head>>2)
	if head&1 != 0 {
		if q.Left() != 0 {
			return fail("an epoch begins with %d microbatches left of the one before", q.Left())
		}
		q = q.NextEpoch()
	}
	if head>>2 > MaxSlots || leased < 1 || int64(leased) > q.Left() {
		return fail("%d slots with %d microbatches left", head>>2, q.Left())
	}
	missing, err := l.missing(head, leased)
	if err != nil {
		return fail("%w", err)
	}
	r := Record{Step: l.record.Step + 1, Leased: leased}
	var counted []int
	for slot, it := range q.Lease(leased) {
		if _, ok := slices.BinarySearch(missing, slot); !ok {
			counted = append(counted, slot)
			r.Pieces = append(r.Pieces, Piece{Slot: slot, Batch: it.Batch})
			r.Samples += it.Rows
		}
	}
	r.Queue = q.Commit(leased, counted)
	if len(r.Queue.Late) > MaxSlots {
		return fail("%d late microbatches, at most %d", len(r.Queue.Late), MaxSlots)
	}
	l.record = r
	return r, nil
}

// missing reads the numbers of the slots that did not count.
func (l *LogReader) missing(head uint64, leased int) ([]int, error) {
	if head&2 == 0 {
		return nil, nil
	}
	n, err := binary.ReadUvarint(l.r)
	if err != nil {
		return nil, short(err)
	}
	if n < 1 || n >= uint64(leased) {
		return nil, fmt.Errorf("%d of %d slots do not count", n, leased)
	}
	slots, last := make([]int, n), 0
	for i := range slots {
		gap, err := binary.ReadUvarint(l.r)
		if err != nil {
			return nil, short(err)
		}
		if gap >= uint64(leased-last) || i > 0 && gap == 0 {
			return nil, fmt.Errorf("slot %d of %d follows slot %d", uint64(last)+gap, leased, last)
		}
		last += int(gap)
		slots[i] = last
	}
	return slots, nil
}

// short converts io.EOF within a step to io.ErrUnexpectedEOF.
func short(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

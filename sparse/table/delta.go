package table

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
)

// saveDelta writes entries as the changes of a shard after step since, in the format of the
// package comment.
func (v view) saveDelta(w io.Writer, shard int, since int64, all []entry) error {
	t, gone := v.t, countGone(all)
	f := t.newFile(w)
	t.head(f, deltaMagic, shard)
	f.number64(uint64(since))
	f.number64(uint64(v.now))
	f.number64(uint64(len(all) - gone))
	f.number64(uint64(gone))
	err := v.write(f, all)
	for _, e := range all {
		if e.isGone() {
			f.number64(e.key)
		}
	}
	if err == nil {
		err = f.end()
	}
	if err != nil {
		return fmt.Errorf("table %q: delta of shard %d: %w", t.cfg.Name, shard, err)
	}
	return nil
}

// LoadDelta applies the [Changes] that a Snapshot saved to a shard and returns the last step of the
// delta. Now must be between the first and the last step of the delta. If the delta has no
// stamps, its changes count to its last step. On an error nothing has changed, unless a
// disk failed. Call SetNow with the returned step when every shard has its delta.
func (t *Table) LoadDelta(r io.Reader, shard int) (now int64, err error) {
	fault := func(err error) error { return fmt.Errorf("table %q: delta of shard %d: %w", t.cfg.Name, shard, err) }
	t.endObservers()
	sum := crc32.New(castagnoli)
	in := io.TeeReader(r, sum)
	notes, err := t.readHead(in, deltaMagic, shard)
	if err != nil {
		return 0, fault(err)
	}
	var b [32]byte
	if err := readFull(in, b[:]); err != nil {
		return 0, fault(fmt.Errorf("head: %w", err))
	}
	le := binary.LittleEndian
	since, now := int64(le.Uint64(b[:])), int64(le.Uint64(b[8:]))
	if since < 0 || now < since || t.now < since || t.now > now {
		return 0, fault(fmt.Errorf("it contains steps %d to %d, the table is at step %d: load deltas in the order of their steps", since, now, t.now))
	}
	rows, err := readItems(in, le.Uint64(b[16:]), 8+4*(t.RecordLen()+notes))
	if err != nil {
		return 0, fault(fmt.Errorf("rows: %w", err))
	}
	gone, err := readItems(in, le.Uint64(b[24:]), 8)
	if err != nil {
		return 0, fault(fmt.Errorf("keys given up: %w", err))
	}
	if err := checkSum(r, sum.Sum32()); err != nil {
		return 0, fault(err)
	}
	if err := t.change(shard, rows, notes, gone, now); err != nil {
		return 0, fault(err)
	}
	return now, nil
}

// readItems reads n items of size bytes. Its memory grows with the bytes that arrive.
func readItems(in io.Reader, n uint64, size int) ([]byte, error) {
	if n > maxRows {
		return nil, fmt.Errorf("%d of them, at most %d are possible: the file is damaged", n, maxRows)
	}
	var b bytes.Buffer
	if _, err := io.CopyN(&b, in, int64(n)*int64(size)); err == io.EOF {
		return nil, io.ErrUnexpectedEOF
	} else if err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// change applies the changes of a delta, whose rows have the given number of words of
// notes.
func (t *Table) change(shard int, rows []byte, notes int, gone []byte, now int64) error {
	le, size := binary.LittleEndian, 8+4*(t.RecordLen()+notes)
	for _, list := range []struct {
		items []byte
		size  int
	}{{rows, size}, {gone, 8}} {
		order := ascending{t: t, shard: shard, of: uint64(len(list.items) / list.size)}
		for b := list.items; len(b) > 0; b = b[list.size:] {
			if err := order.check(le.Uint64(b)); err != nil {
				return err
			}
		}
	}
	if err := t.checkCapacity(len(rows) / size); err != nil {
		return err
	}
	record := make([]float32, t.RecordLen())
	for b := rows; len(b) > 0; b = b[size:] {
		if err := t.enforceLimit(); err != nil {
			return err
		}
		row, err := t.rowToChange(le.Uint64(b))
		if err != nil {
			return err
		}
		copy(raw.Bytes(record), b[8:])
		t.converted(record)
		t.unpack(row, record)
		t.restamp(row, b[:size], notes, uint32(now))
	}
	for b := gone; len(b) > 0; b = b[8:] {
		if key := le.Uint64(b); t.index.find(key, hash(t.salt, key)) != 0 {
			t.removeRow(key)
		}
	}
	return nil
}

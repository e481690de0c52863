package table

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
)

const (
	seenMagic = "WDLSIGHT"
	// maxCounters bounds the number that a file can announce. No table has more.
	maxCounters = 1 << 36
	// seenEach is the number of counters per byte of the format.
	seenEach = 8
)

// Seen reports whether SaveSeen has occurrence counts of a shard to save.
func (t *admission) Seen(shard int) bool { return t.sketches != nil && t.sketches[shard].counts != nil }

// SaveSeen writes the occurrence counts of a shard in the format of the package
// comment. They take at most 9/8 of the bytes of its counters.
func (t *Table) SaveSeen(w io.Writer, shard int) error {
	var none sketch
	s := &none
	if t.Seen(shard) {
		s = &t.sketches[shard]
	}
	return t.saveSeen(w, shard, s)
}

func (t *Table) saveSeen(w io.Writer, shard int, s *sketch) error {
	f := t.newFile(w)
	f.head(seenMagic, 1, t.description(shard))
	f.number64(uint64(s.seen))
	f.number64(uint64(len(s.counts)))
	packed := len(s.counts) / seenEach
	for _, n := range s.counts {
		packed += int(min(n, 1))
	}
	f.number64(uint64(packed))
	for at := 0; at < len(s.counts); at += seenEach {
		group := append(f.out.AvailableBuffer(), 0)
		for i, n := range s.counts[at : at+seenEach] {
			if n != 0 {
				group[0] |= 1 << i
				group = append(group, n)
			}
		}
		f.out.Write(group)
	}
	if err := f.end(); err != nil {
		return fmt.Errorf("table %q: occurrences of shard %d: %w", t.cfg.Name, shard, err)
	}
	return nil
}

// LoadSeen replaces the occurrence counts of a shard by those that SaveSeen wrote. It reads
// no byte past their end. It skips them if the table has a different number of counters or
// admits every key. On an error nothing has changed.
func (t *Table) LoadSeen(r io.Reader, shard int) error {
	sum := crc32.New(castagnoli)
	s, err := t.readSeen(io.TeeReader(r, sum), shard)
	if err == nil {
		err = checkSum(r, sum.Sum32())
	}
	if err != nil {
		return fmt.Errorf("table %q: occurrences of shard %d: %w", t.cfg.Name, shard, err)
	}
	if t.sketches != nil && len(s.counts) == sketchLen(t.cfg.Admit.Counters/len(t.sketches)) {
		t.endObservers()
		t.sketches[shard] = s
	}
	return nil
}

// readSeen reads a sketch of any size. It allocates at most eight times the bytes that
// arrive.
func (t *Table) readSeen(in io.Reader, shard int) (s sketch, err error) {
	if _, err := t.readVersion(in, seenMagic, 1, shard); err != nil {
		return s, fmt.Errorf("head: %w", err)
	}
	le := binary.LittleEndian
	var b [24]byte
	if err := readFull(in, b[:]); err != nil {
		return s, fmt.Errorf("head: %w", err)
	}
	seen, n, size := le.Uint64(b[:]), le.Uint64(b[8:]), le.Uint64(b[16:])
	if n > maxCounters || n%seenEach != 0 || seen > max(n, 1)-1 || size < n/seenEach || size > n/seenEach+n {
		return s, fmt.Errorf("%d occurrences in %d counters, packed to %d bytes: the file is damaged", seen, n, size)
	}
	var packed bytes.Buffer
	if _, err := io.CopyN(&packed, in, int64(size)); err != nil {
		return s, fmt.Errorf("counters: %w", io.ErrUnexpectedEOF)
	}
	s = sketch{counts: make([]uint8, n), seen: int(seen)}
	if !unpackCounters(s.counts, packed.Bytes()) {
		return s, fmt.Errorf("%d counters are not what is packed in %d bytes: the file is damaged", n, size)
	}
	return s, nil
}

// unpackCounters writes the packed counters to counts. It returns false if their number is
// wrong or a counter that is declared non-zero is zero.
func unpackCounters(counts, packed []uint8) bool {
	for ; len(counts) > 0; counts = counts[seenEach:] {
		if len(packed) == 0 {
			return false
		}
		group := packed[0]
		packed = packed[1:]
		if bits.OnesCount8(group) > len(packed) {
			return false
		}
		for ; group != 0; group &= group - 1 {
			if packed[0] == 0 {
				return false
			}
			counts[bits.TrailingZeros8(group)], packed = packed[0], packed[1:]
		}
	}
	return len(packed) == 0
}

package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/zeebo/xxh3"
)

// formatVersion is the newest format version of checkpoints that this package reads and
// writes: 1 for a full one, 2 for an incremental one.
const formatVersion = 2

// partVersion is the format version of a part file, the same in both.
const partVersion = 1

const (
	headMagic = "WDLRWCK\n"
	tailMagic = "WDLREND\n"

	headSize  = 40
	tailSize  = 32
	entrySize = 2 + 3*8 // size of a directory entry without the name

	maxSections  = 1 << 20  // sections of a part; a job has about one per table and shard
	maxDirectory = 64 << 20 // bytes of a directory; bounds the memory of Open per part
)

// Sum is an xxh3-64 checksum. Its text form is sixteen hexadecimal digits.
type Sum uint64

func (s Sum) String() string { return fmt.Sprintf("%016x", uint64(s)) }

// MarshalText writes s as sixteen lower-case digits.
func (s Sum) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText accepts only the output of MarshalText.
func (s *Sum) UnmarshalText(b []byte) error {
	if len(b) != 16 {
		return fmt.Errorf("a checksum has 16 digits, not %d", len(b))
	}
	var v uint64
	for _, c := range b {
		switch {
		case '0' <= c && c <= '9':
			v = v<<4 | uint64(c-'0')
		case 'a' <= c && c <= 'f':
			v = v<<4 | uint64(c-'a'+10)
		default:
			return fmt.Errorf("checksum %q has a digit that is none of 0-9 and a-f", b)
		}
	}
	*s = Sum(v)
	return nil
}

// SumOf returns the checksum and the length of the payload that write writes.
func SumOf(write func(io.Writer) error) (sum Sum, length int64, err error) {
	h := counted{hash: xxh3.New()}
	err = write(&h)
	return Sum(h.hash.Sum64()), h.n, err
}

type counted struct {
	hash *xxh3.Hasher
	n    int64
}

func (c *counted) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return c.hash.Write(b)
}

// head is the header of a part file.
type head struct {
	version, part, parts uint32
	step                 int64
}

func (h head) encode() []byte {
	b := make([]byte, 0, headSize)
	b = append(b, headMagic...)
	b = binary.LittleEndian.AppendUint32(b, h.version)
	b = binary.LittleEndian.AppendUint32(b, h.part)
	b = binary.LittleEndian.AppendUint32(b, h.parts)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.step))
	return binary.LittleEndian.AppendUint64(b, xxh3.Hash(b))
}

// check compares b, the first headSize bytes of a file, with the expected header.
func (h head) check(b []byte) error {
	if string(b[:8]) != headMagic {
		return errors.New("offset 0: the file does not start as a part of a checkpoint does: damaged, or no checkpoint file")
	}
	if got := binary.LittleEndian.Uint64(b[32:]); got != xxh3.Hash(b[:32]) {
		return fmt.Errorf("offset 32: checksum of the header is %v, it contains %v: damaged", Sum(xxh3.Hash(b[:32])), Sum(got))
	}
	got := head{
		version: binary.LittleEndian.Uint32(b[8:]),
		part:    binary.LittleEndian.Uint32(b[12:]),
		parts:   binary.LittleEndian.Uint32(b[16:]),
		step:    int64(binary.LittleEndian.Uint64(b[24:])),
	}
	if got.version == 0 || got.version > partVersion {
		return newer("offset 8", int64(got.version), partVersion)
	}
	if got.part != h.part || got.parts != h.parts || got.step != h.step {
		return fmt.Errorf("offset 12: the file is part %d of %d of step %d, the manifest has part %d of %d of step %d: files of two checkpoints were mixed",
			got.part, got.parts, got.step, h.part, h.parts, h.step)
	}
	return nil
}

func newer(where string, version, newest int64) error {
	return fmt.Errorf("%s: format version %d, this program reads up to %d: use the program that wrote it or a later one", where, version, newest)
}

// tail is the trailer of a part file.
type tail struct {
	offset, length int64 // position of the directory
	sum            Sum
}

func (t tail) encode() []byte {
	b := make([]byte, 0, tailSize)
	b = binary.LittleEndian.AppendUint64(b, uint64(t.offset))
	b = binary.LittleEndian.AppendUint64(b, uint64(t.length))
	b = binary.LittleEndian.AppendUint64(b, uint64(t.sum))
	return append(b, tailMagic...)
}

// parseTail parses b, the last tailSize bytes of a file of size bytes.
func parseTail(b []byte, size int64) (tail, error) {
	at := size - tailSize
	if string(b[24:]) != tailMagic {
		return tail{}, fmt.Errorf("offset %d: the file does not end as a part of a checkpoint does: cut short or damaged", at+24)
	}
	offset, length := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	if length < 4 || length > maxDirectory || offset < headSize || offset > uint64(at) || offset+length != uint64(at) {
		return tail{}, fmt.Errorf("offset %d: the trailer puts a directory of %d bytes at offset %d of a file of %d bytes: damaged", at, length, offset, size)
	}
	return tail{int64(offset), int64(length), Sum(binary.LittleEndian.Uint64(b[16:]))}, nil
}

// section is one entry of a directory.
type section struct {
	name           string
	offset, length int64
	sum            Sum
}

func encodeDirectory(sections []section) []byte {
	n := 4
	for _, s := range sections {
		n += entrySize + len(s.name)
	}
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, n), uint32(len(sections)))
	for _, s := range sections {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(s.name)))
		b = append(b, s.name...)
		b = binary.LittleEndian.AppendUint64(b, uint64(s.offset))
		b = binary.LittleEndian.AppendUint64(b, uint64(s.length))
		b = binary.LittleEndian.AppendUint64(b, uint64(s.sum))
	}
	return b
}

// parseDirectory parses the directory b, which is at offset at of its file. The payloads must
// fill the file from the header to the directory without gaps, so that checksums cover every
// byte.
func parseDirectory(b []byte, at int64) ([]section, error) {
	fault := func(rest []byte, format string, a ...any) ([]section, error) {
		return nil, fmt.Errorf("offset %d: directory: %s: damaged", at+int64(len(b)-len(rest)), fmt.Sprintf(format, a...))
	}
	if len(b) < 4 {
		return fault(b, "%d bytes", len(b))
	}
	n, rest := binary.LittleEndian.Uint32(b), b[4:]
	if n > maxSections || int(n) > len(rest)/entrySize {
		return fault(b, "%d sections in %d bytes", n, len(b))
	}
	sections, end := make([]section, 0, n), int64(headSize)
	for i := range n {
		if len(rest) < 2 {
			return fault(rest, "ends in section %d of %d", i, n)
		}
		size := int(binary.LittleEndian.Uint16(rest))
		if len(rest) < entrySize+size {
			return fault(rest, "ends in section %d of %d", i, n)
		}
		name, num := string(rest[2:2+size]), rest[2+size:]
		if err := checkName(name); err != nil {
			return fault(rest, "section %d: %v", i, err)
		}
		offset, length := binary.LittleEndian.Uint64(num), binary.LittleEndian.Uint64(num[8:])
		if offset != uint64(end) || length > uint64(at-end) {
			return fault(rest, "section %q: %d bytes at offset %d, expected at %d and not past %d", name, length, offset, end, at)
		}
		sections = append(sections, section{name, end, int64(length), Sum(binary.LittleEndian.Uint64(num[16:]))})
		end += int64(length)
		rest = num[24:]
	}
	if len(rest) != 0 || end != at {
		return fault(rest, "%d bytes left over after it and %d before it", len(rest), at-end)
	}
	return sections, nil
}

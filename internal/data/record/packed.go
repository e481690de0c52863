package record

import (
	"bytes"
	"compress/bzip2"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Packing is a way to compress a file.
type Packing struct {
	name   string
	magic  string
	suffix string
	open   func(io.Reader) (io.ReadCloser, error)
}

// maxWindow is the maximum memory in bytes that a zstd file can request.
const maxWindow = 128 << 20

const zstdMagic = "\x28\xb5\x2f\xfd"

// packings lists the supported compressions, recognised by their first bytes. A question mark
// stands for any byte. Files without magic are recognised by their name.
var packings = []Packing{
	{"gzip", "\x1f\x8b", ".gz", newMembers},
	{"zstd", zstdMagic, ".zst", func(r io.Reader) (io.ReadCloser, error) {
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}},
	{"snappy", "\xff\x06\x00\x00sNaPpY", ".sz", func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(snappy.NewReader(r)), nil }},
	{"lz4", "\x04\x22\x4d\x18", ".lz4", func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(lz4.NewReader(r)), nil }},
	{"bzip2", "BZh?1AY&SY", ".bz2", func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(bzip2.NewReader(r)), nil }},
	{"zlib", "", ".deflate", zlib.NewReader},
	{"snappy of Hadoop", "", ".snappy", newHadoopBlocks(snappyChunk)},
	{"lz4 of Hadoop", "", ".lz4", newHadoopBlocks(lz4.UncompressBlock)},
}

// packingOf returns the packing by the first bytes of a file, or nil for none. It fails if
// the name has the suffix of another packing.
func packingOf(name string, head []byte) (*Packing, error) {
	if head = skipped(head); isSkippable(head) { // its end is not in head
		return packingOf(name, []byte(zstdMagic))
	}
	for i, p := range packings {
		if p.magic != "" && isMagic(head, p.magic) || p.magic == "" && strings.HasSuffix(name, p.suffix) && p.suits(head) {
			return &packings[i], nil
		}
	}
	for _, p := range packings {
		if strings.HasSuffix(name, p.suffix) {
			return nil, fmt.Errorf("%s: its name ends in %s, but it is not a %s; check how it was written or rename it", name, p.suffix, p.name)
		}
	}
	return nil, nil
}

// suits reports whether a file that begins with head, and has no magic, can be packed so.
func (p *Packing) suits(head []byte) bool {
	r, err := p.open(bytes.NewReader(head))
	if err != nil {
		return false
	}
	defer r.Close()
	var one [1]byte
	_, err = r.Read(one[:])
	return err == nil || err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF)
}

// isSkippable reports whether a skippable frame begins here, which pzstd writes before each frame
// (RFC 8878, 3.1.2).
func isSkippable(b []byte) bool {
	return len(b) > 3 && b[0]>>4 == 5 && string(b[1:4]) == "\x2a\x4d\x18"
}

// skipped returns what follows the skippable frames at the beginning of a file, as far as it is
// in head.
func skipped(head []byte) []byte {
	const header = 8
	for isSkippable(head) && len(head) >= header {
		n := uint64(binary.LittleEndian.Uint32(head[4:])) + header
		if n >= uint64(len(head)) {
			break
		}
		head = head[n:]
	}
	return head
}

// packed reads the unpacked bytes of a packed file. It reads sequentially; seeking back
// restarts at the beginning.
type packed struct {
	Content
	how  *Packing
	size int64 // of the packed file
	r    io.ReadCloser
	at   int64
}

func (p *packed) ReadAt(b []byte, off int64) (n int, err error) {
	if p.r == nil || off < p.at {
		if err := p.rewind(); err != nil {
			return 0, p.fault(err)
		}
	}
	if off > p.at {
		m, err := io.CopyN(io.Discard, p.r, off-p.at)
		if p.at += m; err != nil {
			return 0, p.fault(err)
		}
	}
	n, err = io.ReadFull(p.r, b)
	if p.at += int64(n); err == io.ErrUnexpectedEOF && n < len(b) && p.ended() {
		err = io.EOF
	}
	return n, p.fault(err)
}

// ended distinguishes a complete file from a truncated one, which ReadFull does not.
func (p *packed) ended() bool {
	var one [1]byte
	_, err := p.r.Read(one[:])
	return err == io.EOF
}

func (p *packed) rewind() error {
	if p.r != nil {
		p.r.Close()
	}
	p.at, p.r = 0, nil
	r, err := p.how.open(io.NewSectionReader(p.Content, 0, p.size))
	if err == nil {
		p.r = r
	}
	return err
}

// fault returns the error for a broken packed file, with the place.
func (p *packed) fault(err error) error {
	switch {
	case err == nil || err == io.EOF:
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the %s file ends early, after %d unpacked bytes; was it copied whole?", p.how.name, p.at)
	}
	return fmt.Errorf("the %s file is damaged after %d unpacked bytes: %w", p.how.name, p.at, err)
}

func (p *packed) Close() error {
	if p.r != nil {
		p.r.Close()
	}
	return p.Content.Close()
}

// UnpackedName returns the name of a file without the suffix of its packing.
func UnpackedName(name string) string {
	for i := range packings {
		if short, ok := strings.CutSuffix(name, packings[i].suffix); ok {
			return short
		}
	}
	return name
}

// isMagic reports whether b begins with a magic, whose question marks stand for any byte.
func isMagic(b []byte, magic string) bool {
	if len(b) < len(magic) {
		return false
	}
	for i := range len(magic) {
		if magic[i] != '?' && b[i] != magic[i] {
			return false
		}
	}
	return true
}

// Content is a file open for reading.
type Content interface {
	io.ReaderAt
	io.Closer
}

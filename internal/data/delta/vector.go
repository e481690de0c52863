package delta

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"strings"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// A deletion vector is a set of rows of a file, stored in a file of vectors or in the log:
//
//	storageType u   prefix and 20 digits of base 85, a UUID: PREFIX/deletion_vector_UUID.bin
//	            p   the URL of such a file
//	            i   the set itself, in base 85
//
//	of the file:    bytes of the set, 4 bytes, highest first · set · CRC-32, 4 bytes, highest first
//	set:            magic, 4 bytes · number of bitmaps, 8 bytes · per bitmap: 4 bytes, the upper half
//	                of its numbers · a roaring bitmap
//
// Other numbers are little-endian. A roaring bitmap is that of
// https://github.com/RoaringBitmap/RoaringFormatSpec.
const (
	vectorMagic   = 1681511377
	maxVectorFile = 64 << 20 // bytes of a set
)

// rows returns the deleted rows, ascending.
func (v *vector) rows(dir string) (rows []uint32, err error) {
	var b []byte
	if v.StorageType == "i" {
		b, err = base85(v.PathOrInlineDv)
	} else {
		b, err = v.load(dir)
	}
	if err == nil {
		rows, err = rowSet(b)
	}
	if err == nil && v.Cardinality != int64(len(rows)) {
		err = fmt.Errorf("it has %d rows, the log states %d", len(rows), v.Cardinality)
	}
	return rows, err
}

// load reads a set from its file.
func (v *vector) load(dir string) ([]byte, error) {
	path, err := v.path(dir)
	if err != nil {
		return nil, err
	}
	if v.Offset == nil || *v.Offset < 0 {
		return nil, errVector
	}
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var head [4]byte
	if _, err := f.ReadAt(head[:], int64(*v.Offset)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxVectorFile {
		return nil, fmt.Errorf("%s: a set of %d bytes, at most %d are possible", path, size, maxVectorFile)
	}
	b, err := io.ReadAll(io.NewSectionReader(f, int64(*v.Offset)+4, int64(size)+4))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(b) != int(size)+4 || binary.BigEndian.Uint32(b[size:]) != crc32.ChecksumIEEE(b[:size]) {
		return nil, fmt.Errorf("%s: offset %d: %w", path, *v.Offset, errVector)
	}
	return b[:size], nil
}

// path returns the path of the file of a vector.
func (v *vector) path(dir string) (string, error) {
	const digits = 20 // of a UUID
	switch s := v.PathOrInlineDv; {
	case v.StorageType == "p":
		return (&add{Path: s}).in(dir)
	case v.StorageType == "u":
		if len(s) < digits {
			return "", errVector
		}
		id, err := base85(s[len(s)-digits:])
		if err != nil {
			return "", err
		}
		name := fmt.Sprintf("deletion_vector_%x-%x-%x-%x-%x.bin", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
		in := filepath.Join(s[:len(s)-digits], name)
		if !filepath.IsLocal(in) {
			return "", errVector
		}
		return filepath.Join(dir, in), nil
	}
	return "", unsupported(fmt.Sprintf("it needs a deletion vector that is stored as %q, which is not supported", v.StorageType))
}

// base85 decodes Z85 (https://rfc.zeromq.org/spec/32): four bytes in five digits.
func base85(s string) ([]byte, error) {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
	if len(s)%5 != 0 || len(s) > maxVectorFile {
		return nil, errVector
	}
	b := make([]byte, 0, len(s)/5*4)
	for ; len(s) > 0; s = s[5:] {
		n := uint64(0)
		for i := range 5 {
			digit := strings.IndexByte(digits, s[i])
			if digit < 0 {
				return nil, errVector
			}
			n = 85*n + uint64(digit)
		}
		if n > 1<<32-1 {
			return nil, errVector
		}
		b = binary.BigEndian.AppendUint32(b, uint32(n))
	}
	return b, nil
}

// rowSet decodes a set of rows. Files have fewer than 2^32 rows.
func rowSet(b []byte) (rows []uint32, err error) {
	c := &cursor{b: b}
	if magic := c.uint32(); magic != vectorMagic {
		return nil, fmt.Errorf("%w: it begins with %d", errVector, magic)
	}
	n := binary.LittleEndian.Uint64(c.next(8))
	if n > 1 {
		return nil, fmt.Errorf("%w: %d bitmaps of 2^32 rows", errVector, n)
	}
	if n == 1 {
		if upper := c.uint32(); upper != 0 {
			return nil, fmt.Errorf("%w: rows from 2^32 on", errVector)
		}
		if rows, err = c.bitmap(); err != nil {
			return nil, err
		}
	}
	if c.short {
		return nil, errVector
	}
	for i := 1; i < len(rows); i++ {
		if rows[i] <= rows[i-1] {
			return nil, errVector
		}
	}
	return rows, nil
}

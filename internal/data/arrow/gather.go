package arrow

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/table"
)

// offset returns number i of size bytes, which are 4 or 8. One that no slice can have is negative.
func offset(b []byte, i, size int) int {
	if size == 4 {
		return int(int32(binary.LittleEndian.Uint32(b[4*i:])))
	}
	return int(binary.LittleEndian.Uint64(b[8*i:]))
}

// taken are the values that are read of an array.
type taken struct {
	n  int     // of the array
	at []int32 // their indexes; nil: all values, in order
}

func (t *taken) len() int {
	if t.at == nil {
		return t.n
	}
	return len(t.at)
}

// index returns the index of value i of those that are read.
func (t *taken) index(i int) int {
	if t.at == nil {
		return i
	}
	return int(t.at[i])
}

// gather reads values of an array. It keeps the memory of s.
func (b *batch) gather(f *field, take taken, s *table.Stored) error {
	n := take.n
	switch f.kind {
	case typeNull:
		s.Offsets = append(s.Offsets[:0], 0)
		return nil
	case typeBinary, typeUtf8:
		return b.strings(f, take, s, 4)
	case typeLargeBinary, typeLargeUtf8:
		return b.strings(f, take, s, 8)
	case typeBinaryView, typeUtf8View:
		return b.viewed(f, take, s)
	}
	data, err := b.buffer(f, 1)
	if err != nil {
		return err
	}
	size := n
	switch f.kind {
	case typeBool:
		size = (n + 7) / 8
	case typeFixedBinary:
		size *= f.width
	default:
		size *= f.width / 8
	}
	if len(data) < size {
		return fmt.Errorf("%d bytes for %d values, which need %d", len(data), n, size)
	}
	return fixed(f, data, take, s)
}

// resized returns a slice of n elements, in the memory of s if it is enough.
func resized[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// fixed reads values of a fixed size.
func fixed(f *field, data []byte, take taken, s *table.Stored) error {
	switch f.kind {
	case typeBool:
		s.Bits = resized(s.Bits, (take.len()+7)/8)
		clear(s.Bits)
		for i := range take.len() {
			s.Bits[i/8] |= bit(data, take.index(i)) << (i % 8)
		}
	case typeFixedBinary:
		s.Bytes = cut(data, f.width, take)
	case typeDecimal:
		s.Bytes = cut(data, f.width/8, take)
		for rest := s.Bytes; len(rest) > 0; rest = rest[f.width/8:] {
			slices.Reverse(rest[:f.width/8])
		}
	case typeFloat:
		switch f.width {
		case 16:
			s.Bytes = cut(data, 2, take)
		case 32:
			s.Floats = resized(s.Floats, take.len())
			for i := range s.Floats {
				s.Floats[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*take.index(i):]))
			}
		default:
			s.Doubles = resized(s.Doubles, take.len())
			for i := range s.Doubles {
				s.Doubles[i] = math.Float64frombits(binary.LittleEndian.Uint64(data[8*take.index(i):]))
			}
		}
	default:
		return numbers(f, data, take, s)
	}
	return nil
}

// cut returns values of width bytes.
func cut(data []byte, width int, take taken) []byte {
	b := make([]byte, 0, width*take.len())
	for i := range take.len() {
		k := take.index(i)
		b = append(b, data[width*k:width*(k+1)]...)
	}
	return b
}

// numbers reads integers, dates and times.
func numbers(f *field, data []byte, take taken, s *table.Stored) error {
	const aDay = 24 * 60 * 60 * 1000 // in milliseconds
	if f.width == 64 && f.kind != typeDate {
		s.Int64s = resized(s.Int64s, take.len())
		for i := range s.Int64s {
			s.Int64s[i] = int64(binary.LittleEndian.Uint64(data[8*take.index(i):]))
		}
		if f.kind == typeTimestamp && f.unit == 0 {
			return milliseconds(s.Int64s)
		}
		return nil
	}
	s.Int32s = resized(s.Int32s, take.len())
	for i := range s.Int32s {
		k := take.index(i)
		switch {
		case f.width == 64:
			n := int64(binary.LittleEndian.Uint64(data[8*k:]))
			day := n / aDay
			if n%aDay < 0 {
				day--
			}
			if day != int64(int32(day)) {
				return fmt.Errorf("value %d is the day %d", k, day)
			}
			s.Int32s[i] = int32(day)
		case f.width == 32:
			s.Int32s[i] = int32(binary.LittleEndian.Uint32(data[4*k:]))
		case f.width == 16 && f.signed:
			s.Int32s[i] = int32(int16(binary.LittleEndian.Uint16(data[2*k:])))
		case f.width == 16:
			s.Int32s[i] = int32(binary.LittleEndian.Uint16(data[2*k:]))
		case f.signed:
			s.Int32s[i] = int32(int8(data[k]))
		default:
			s.Int32s[i] = int32(data[k])
		}
	}
	if f.kind == typeTime && f.unit == 0 {
		for i, n := range s.Int32s {
			if n < 0 || n > aDay/1000 {
				return fmt.Errorf("a time of %d seconds is outside a day", n)
			}
			s.Int32s[i] = 1000 * n
		}
	}
	return nil
}

// milliseconds converts seconds.
func milliseconds(all []int64) error {
	for i, n := range all {
		if n > math.MaxInt64/1000 || n < math.MinInt64/1000 {
			return fmt.Errorf("a time of %d seconds since 1970", n)
		}
		all[i] = 1000 * n
	}
	return nil
}

// strings reads strings between offsets of size bytes. As long as they follow one another, nulls between them being
// empty, they stay where they are.
func (b *batch) strings(f *field, take taken, s *table.Stored, size int) error {
	offsets, err := b.buffer(f, 1)
	if err != nil {
		return err
	}
	data, err := b.buffer(f, 2)
	if err != nil {
		return err
	}
	if take.len() > 0 && len(offsets) < size*(take.n+1) {
		return fmt.Errorf("%d bytes of offsets for %d strings", len(offsets), take.n)
	}
	s.Offsets = append(slices.Grow(s.Offsets[:0], take.len()+1), 0)
	first, end, moved := -1, 0, false
	for i := range take.len() {
		k := take.index(i)
		lo, hi := offset(offsets, k, size), offset(offsets, k+1, size)
		if lo < 0 || hi < lo || hi > len(data) {
			return fmt.Errorf("string %d has bytes %d to %d of %d", k, lo, hi, len(data))
		}
		switch {
		case i == 0:
			first, end = lo, lo
		case !moved && lo != end:
			s.Bytes, moved = slices.Clone(data[first:end]), true
		}
		if !moved {
			end = hi
			s.Offsets = append(s.Offsets, uint32(end-first))
		} else if err := add(s, data[lo:hi]); err != nil {
			return err
		}
	}
	if !moved {
		s.Bytes = data[max(first, 0):end]
	}
	return nil
}

// add adds a string.
func add(s *table.Stored, b []byte) error {
	if len(s.Bytes)+len(b) > maxBuffer {
		return fmt.Errorf("its strings have more than %d bytes; write smaller batches", maxBuffer)
	}
	s.Bytes = append(s.Bytes, b...)
	s.Offsets = append(s.Offsets, uint32(len(s.Bytes)))
	return nil
}

// viewed reads strings by their views:
//
//	length, 4 bytes · up to 12 bytes of a short string, or 4 bytes, buffer, offset
func (b *batch) viewed(f *field, take taken, s *table.Stored) error {
	const view, short = 16, 12
	views, err := b.buffer(f, 1)
	if err != nil {
		return err
	}
	if len(views) < view*take.n {
		return fmt.Errorf("%d bytes for %d views", len(views), take.n)
	}
	buffers := make([][]byte, min(b.Uint64(b.views+8*b.places[f].view), uint64(b.bufCount)))
	read := make([]bool, len(buffers))
	s.Bytes, s.Offsets = nil, append(slices.Grow(s.Offsets[:0], take.len()+1), 0)
	for i := range take.len() {
		k := take.index(i)
		v := views[view*k:][:view]
		length := int(int32(binary.LittleEndian.Uint32(v)))
		if length >= 0 && length <= short {
			if err := add(s, v[4:4+length]); err != nil {
				return err
			}
			continue
		}
		i, lo := int(int32(binary.LittleEndian.Uint32(v[8:]))), int(int32(binary.LittleEndian.Uint32(v[12:])))
		if i < 0 || i >= len(buffers) {
			return fmt.Errorf("string %d is in buffer %d of %d", k, i, len(buffers))
		}
		if !read[i] {
			if buffers[i], err = b.buffer(f, 2+i); err != nil {
				return err
			}
			read[i] = true
		}
		if length < 0 || lo < 0 || lo > len(buffers[i])-length {
			return fmt.Errorf("string %d has %d bytes from %d of %d", k, length, lo, len(buffers[i]))
		}
		if err := add(s, buffers[i][lo:lo+length]); err != nil {
			return err
		}
	}
	return nil
}

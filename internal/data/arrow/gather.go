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

// gather reads the values of an array of n whose indexes are in take (nil: all, in order).
func (b *batch) gather(f *field, n int, take []int32, s *table.Stored) error {
	if take == nil {
		take = make([]int32, n)
		for i := range take {
			take[i] = int32(i)
		}
	}
	switch f.kind {
	case typeNull:
		s.Offsets = []uint32{0}
		return nil
	case typeBinary, typeUtf8:
		return b.strings(f, n, take, s, 4)
	case typeLargeBinary, typeLargeUtf8:
		return b.strings(f, n, take, s, 8)
	case typeBinaryView, typeUtf8View:
		return b.viewed(f, n, take, s)
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

// fixed reads values of a fixed size.
func fixed(f *field, data []byte, take []int32, s *table.Stored) error {
	switch f.kind {
	case typeBool:
		s.Bits = make([]byte, (len(take)+7)/8)
		for i, k := range take {
			s.Bits[i/8] |= bit(data, int(k)) << (i % 8)
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
			s.Floats = make([]float32, len(take))
			for i, k := range take {
				s.Floats[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*int(k):]))
			}
		default:
			s.Doubles = make([]float64, len(take))
			for i, k := range take {
				s.Doubles[i] = math.Float64frombits(binary.LittleEndian.Uint64(data[8*int(k):]))
			}
		}
	default:
		return numbers(f, data, take, s)
	}
	return nil
}

// cut returns values of width bytes.
func cut(data []byte, width int, take []int32) []byte {
	b := make([]byte, 0, width*len(take))
	for _, k := range take {
		b = append(b, data[width*int(k):width*(int(k)+1)]...)
	}
	return b
}

// numbers reads integers, dates and times.
func numbers(f *field, data []byte, take []int32, s *table.Stored) error {
	const aDay = 24 * 60 * 60 * 1000 // in milliseconds
	if f.width == 64 && f.kind != typeDate {
		s.Int64s = make([]int64, len(take))
		for i, k := range take {
			s.Int64s[i] = int64(binary.LittleEndian.Uint64(data[8*int(k):]))
		}
		if f.kind == typeTimestamp && f.unit == 0 {
			return milliseconds(s.Int64s)
		}
		return nil
	}
	s.Int32s = make([]int32, len(take))
	for i, k := range take {
		k := int(k)
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

// strings reads strings between offsets of size bytes.
func (b *batch) strings(f *field, n int, take []int32, s *table.Stored, size int) error {
	offsets, err := b.buffer(f, 1)
	if err != nil {
		return err
	}
	data, err := b.buffer(f, 2)
	if err != nil {
		return err
	}
	if len(take) > 0 && len(offsets) < size*(n+1) {
		return fmt.Errorf("%d bytes of offsets for %d strings", len(offsets), n)
	}
	s.Offsets = make([]uint32, 1, len(take)+1)
	for _, k := range take {
		lo, hi := offset(offsets, int(k), size), offset(offsets, int(k)+1, size)
		if lo < 0 || hi < lo || hi > len(data) {
			return fmt.Errorf("string %d has bytes %d to %d of %d", k, lo, hi, len(data))
		}
		if err := add(s, data[lo:hi]); err != nil {
			return err
		}
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
func (b *batch) viewed(f *field, n int, take []int32, s *table.Stored) error {
	const view, short = 16, 12
	views, err := b.buffer(f, 1)
	if err != nil {
		return err
	}
	if len(views) < view*n {
		return fmt.Errorf("%d bytes for %d views", len(views), n)
	}
	buffers := make([][]byte, min(b.Uint64(b.views+8*b.places[f].view), uint64(b.bufCount)))
	read := make([]bool, len(buffers))
	s.Offsets = make([]uint32, 1, len(take)+1)
	for _, k := range take {
		v := views[view*int(k):][:view]
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

package table

import (
	"encoding/binary"
	"math"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Records are rows as Append encodes them, made of spans, one column after the other. The
// dictionaries of the spans must last until the next Begin.
type Records struct {
	bytes   []byte
	begin   []int // of each row
	end     []int
	entries []entries // by column
}

// entry is an encoded string, followed in its last byte by the length of both. A row takes all of an
// entry; the next value overwrites the end, and rows have a gap between them.
type entry [16]byte

const (
	entryBytes = len(entry{}) - 1 // at most
	maxRecords = 16 << 20         // bytes of all rows

	// MaxEntries is the maximum number of entries of a dictionary about which something should be
	// kept for each: a file may have 2^26 in a page.
	MaxEntries = 1 << 20
)

// entries are the encoded strings of a dictionary.
type entries struct {
	known bool
	all   []entry // nil: some are longer, or there are many
}

// Begin prepares x for rows of other dictionaries.
func (x *Records) Begin() {
	for i := range x.entries {
		x.entries[i].known = false
	}
}

// Set encodes the n rows of spans. It returns false if a span is damaged, or the rows are long:
// then Append must read them.
func (x *Records) Set(spans []Span, n int) bool {
	if len(x.entries) != len(spans) {
		x.entries = make([]entries, len(spans))
	}
	if cap(x.end) < n {
		x.begin, x.end = make([]int, n), make([]int, n)
	}
	x.begin, x.end = x.begin[:n], x.end[:n]
	clear(x.end)
	most := len(entry{})
	for i := range spans {
		if s := &spans[i]; s.Values.kind != value.Text || x.entriesOf(i, s) != nil {
			most += entryBytes
		} else if !s.measure(x.end) {
			return false
		}
	}
	total := 0
	for r, size := range x.end {
		x.begin[r], x.end[r] = total, total
		if total += size + most; total > maxRecords {
			return false
		}
	}
	x.bytes = sized(x.bytes, total)
	for i := range spans {
		s, sound := &spans[i], true
		if all := x.entriesOf(i, s); all != nil {
			sound = s.putEntries(all, x.bytes, x.end)
		} else if s.Values.kind == value.Text {
			s.putTexts(x.bytes, x.end)
		} else {
			sound = s.putNumbers(x.bytes, x.end)
		}
		if !sound {
			return false
		}
	}
	return true
}

// Row returns row i, valid until the next call of Set.
func (x *Records) Row(i int) []byte { return x.bytes[x.begin[i]:x.end[i]] }

// entriesOf returns the encoded strings of the dictionary of a span; nil if there are none, or if
// they are long or many.
func (x *Records) entriesOf(column int, s *Span) []entry {
	if s.Dict == 0 || s.Values.kind != value.Text {
		return nil
	}
	e := &x.entries[column]
	if e.known {
		return e.all
	}
	e.known, e.all = true, e.all[:0]
	v := s.Values
	for i := range v.len() {
		text := v.text(i)
		if i == MaxEntries || 3+len(text) > entryBytes {
			e.all = nil
			break
		}
		var to entry
		to[0], to[1], to[2], to[entryBytes] = byte(value.Text), 1, byte(len(text)), byte(3+len(text))
		copy(to[3:], text)
		e.all = append(e.all, to)
	}
	return e.all
}

// isNull reports whether row r is null.
func (s *Span) isNull(r int) bool { return s.There != nil && s.There[r] != s.Most }

// measure adds the bytes of each row of a column of strings. It returns false if the span is damaged.
func (s *Span) measure(sizes []int) bool {
	v, next := s.Values, s.First
	n := v.len()
	if s.Index != nil {
		next = 0
	}
	for r := range sizes {
		if s.isNull(r) {
			sizes[r]++
			continue
		}
		i := next
		next++
		if s.Index != nil {
			i = int(s.Index[i])
		}
		if uint(i) >= uint(n) {
			return false
		}
		sizes[r] += 2 + binary.MaxVarintLen32 + len(v.text(i))
	}
	return true
}

// putEntries writes a column with a dictionary, and advances at. It returns false if the span is
// damaged.
func (s *Span) putEntries(all []entry, dst []byte, at []int) bool {
	index := s.Index
	for r, a := range at {
		if s.isNull(r) {
			dst[a] = byte(value.None)
			at[r]++
			continue
		}
		if uint(index[0]) >= uint(len(all)) {
			return false
		}
		e := &all[index[0]]
		index = index[1:]
		*(*entry)(dst[a:]) = *e
		at[r] = a + int(e[entryBytes])
	}
	return true
}

// putTexts writes a column of strings, and advances at.
func (s *Span) putTexts(dst []byte, at []int) {
	v, next := s.Values, s.First
	if s.Index != nil {
		next = 0
	}
	for r, a := range at {
		if s.isNull(r) {
			dst[a] = byte(value.None)
			at[r]++
			continue
		}
		i := next
		next++
		if s.Index != nil {
			i = int(s.Index[i])
		}
		text := v.text(i)
		dst[a], dst[a+1] = byte(value.Text), 1
		a += 2 + binary.PutUvarint(dst[a+2:], uint64(len(text)))
		at[r] = a + copy(dst[a:], text)
	}
}

// putNumbers writes a column of numbers, and advances at. It returns false if the span is damaged.
func (s *Span) putNumbers(dst []byte, at []int) bool {
	v, next := s.Values, s.First
	n := v.len()
	if s.Index != nil {
		next = 0
	}
	for r, a := range at {
		if s.isNull(r) {
			dst[a] = byte(value.None)
			at[r]++
			continue
		}
		i := next
		next++
		if s.Index != nil {
			i = int(s.Index[i])
		}
		if uint(i) >= uint(n) {
			return false
		}
		to := dst[a : a+2+8]
		to[0], to[1] = byte(v.kind), 1
		if v.kind == value.Int {
			binary.LittleEndian.PutUint64(to[2:], uint64(v.integer(i)))
		} else {
			binary.LittleEndian.PutUint64(to[2:], math.Float64bits(v.doubles[i]))
		}
		at[r] = a + len(to)
	}
	return true
}

package data

import (
	"encoding/binary"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/wire"
)

// A timed is a record of a sample: its position, its time, and whether its label is 1.
type timed struct {
	block    int
	row      int32
	place    uint64 // as of placeOf
	date     bool
	positive bool
}

// mostTimed is the number of records of which a sample shows whether the records are in the order of
// time.
const mostTimed = 1 << 13

// A timeSample holds the records with the least hashes of their positions, so it is the same for any
// number of parts.
type timeSample struct {
	of    map[uint64]timed
	limit uint64 // hashes are at most this; 0: no limit
}

func (s *timeSample) add(x timed) {
	h := mixed(0x74696d65, uint64(x.block), uint64(x.row))
	if s.limit > 0 && h > s.limit {
		return
	}
	if s.of == nil {
		s.of = map[uint64]timed{}
	}
	if s.of[h] = x; len(s.of) >= 2*mostTimed {
		s.pack()
	}
}

// pack removes all but mostTimed records, and returns the hashes of those left.
func (s *timeSample) pack() []uint64 {
	hashes := make([]uint64, 0, len(s.of))
	for h := range s.of {
		hashes = append(hashes, h)
	}
	slices.Sort(hashes)
	if len(hashes) >= mostTimed {
		for _, h := range hashes[mostTimed:] {
			delete(s.of, h)
		}
		hashes = hashes[:mostTimed]
		s.limit = hashes[mostTimed-1]
	}
	return hashes
}

func (s *timeSample) marshal(b []byte) []byte {
	hashes := s.pack()
	b = binary.AppendUvarint(b, uint64(len(hashes)))
	for _, h := range hashes {
		x := s.of[h]
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(x.block)), uint64(x.row))
		b = binary.LittleEndian.AppendUint64(b, x.place)
		flags := byte(0)
		if x.date {
			flags |= 1
		}
		if x.positive {
			flags |= 2
		}
		b = append(b, flags)
	}
	return b
}

func (s *timeSample) merge(r *wire.Reader) {
	for range r.Length(mostTimed, 11) {
		x := timed{block: int(r.Count()), row: int32(r.Count())}
		x.place = r.Uint64()
		flags := r.Byte()
		if x.date, x.positive = flags&1 != 0, flags&2 != 0; r.Err != nil {
			return
		}
		s.add(x)
	}
}

// ordered reports whether nearly all records of each class, with a time of this kind, are less than a
// tenth of the records from their place in the order of time.
func (s *timeSample) ordered(dates bool) bool {
	const tenth, inHundred = 0.1, 5
	s.pack()
	var all []timed
	for _, x := range s.of {
		if x.date == dates {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b timed) int {
		if a.block != b.block {
			return a.block - b.block
		}
		return int(a.row) - int(b.row)
	})
	places := make([]uint64, len(all))
	for i, x := range all {
		places[i] = x.place
	}
	slices.Sort(places)
	slack := int(tenth * float64(len(all)))
	var of, astray [2]int // records of each class
	for i, x := range all {
		class := 0
		if x.positive {
			class = 1
		}
		of[class]++
		from, _ := slices.BinarySearch(places, x.place)
		to, _ := slices.BinarySearch(places, x.place+1) // not included; records of one time may be in any order
		if i < from-slack || i >= to+slack {
			astray[class]++
		}
	}
	return 100*astray[0] <= inHundred*of[0] && 100*astray[1] <= inHundred*of[1]
}

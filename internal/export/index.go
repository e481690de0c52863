package export

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// The index of a table leads from the hash of a key to the only place where its record can
// be. It consists of lines; hashes are divided evenly among them. Each line leads to its own
// records, which are next to each other. It has a pilot for each of its buckets, between which
// hashes are divided evenly again. A pilot selects the function that gives each hash of the
// bucket its place among the records of the line, so that all records have different places.
// This is a perfect hash function, as by Fox, Heath, Chen and Daoud ("Practical minimal perfect
// hash functions", 1992) and PTHash (Pibiri and Trani, 2021), in parts of a cache line each.
//
// A line of 64 bytes:
//
//	first    uint32  number of records in the lines before
//	records  uint32  number of records
//	pilots   28 × uint16, by bucket
type index []byte

const (
	lineBytes   = 64
	linePilots  = (lineBytes - 8) / 2
	lineRecords = 2 * linePilots // on average: more need less memory, but many more attempts to place them
	maxLines    = 1 << 32

	// anyPlace is the pilot of a bucket whose records may have any places in the line, because
	// no pilot was found for it: 1 in 100,000 buckets, unless somebody has chosen the keys.
	anyPlace = math.MaxUint16
)

// linesFor returns the number of lines of the index of n records.
func linesFor(n int) uint64 { return uint64(n/lineRecords + 1) }

func (x index) lines() uint64 { return uint64(len(x) / lineBytes) }

// lineOf returns the line of a hash, and the remaining bits of the hash, which select the bucket.
func lineOf(hash, lines uint64) (line, rest uint64) { return bits.Mul64(hash, lines) }

// bucketOf returns the bucket of the remaining bits of a hash.
func bucketOf(rest uint64) int {
	b, _ := bits.Mul64(rest, linePilots)
	return int(b)
}

// placeOf returns the place of a hash among the records of its line.
func placeOf(hash uint64, pilot uint16, records uint32) uint32 {
	place, _ := bits.Mul64(hash*(uint64(pilot)*0x9e3779b97f4a7c15|1), uint64(records))
	return uint32(place)
}

// at returns the first record of a line, and the number of its records.
func (x index) at(line uint64) (first, records uint32) {
	b := x[line*lineBytes:][:8]
	return binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
}

// find returns the number of the record to which a hash leads, and the pilot of its bucket. No
// other record has the key, unless the pilot is anyPlace.
func (x index) find(hash, lines uint64) (record uint32, pilot uint16) {
	line, rest := lineOf(hash, lines)
	b := (*[lineBytes]byte)(x[line*lineBytes:])
	pilot = binary.LittleEndian.Uint16(b[8+2*bucketOf(rest):])
	return binary.LittleEndian.Uint32(b[:]) + placeOf(hash, pilot, binary.LittleEndian.Uint32(b[4:])), pilot
}

// check returns an error unless the lines divide n records.
func (x index) check(n int, pause Pause) error {
	sum := uint64(0)
	for line := range x.lines() {
		if line%pauseLines == 0 {
			pause.call()
		}
		first, records := x.at(line)
		if uint64(first) != sum {
			return fmt.Errorf("section \"index\": line %d has the records from %d on, those before it are %d", line, first, sum)
		}
		sum += uint64(records)
	}
	if sum != uint64(n) {
		return fmt.Errorf("section \"index\": it has %d records of %d", sum, n)
	}
	return nil
}

// pauseLines is the number of lines checked between two pauses.
const pauseLines = 1 << 13

// placer arranges records, which are added by ascending hash, and makes their index. It holds
// the records of one line.
type placer struct {
	lines  uint64
	stride int                     // bytes of a record
	write  func(rows []byte) error // receives the records in the order of the table
	index  index                   // complete after end
	n      uint32                  // records before those held

	hashes  []uint64
	records []byte                // by hash
	placed  []byte                // by place
	from    [linePilots + 1]int32 // by bucket: index of its first hash
	order   []int32               // buckets, the largest first
	places  []uint32              // by hash
	taken   []uint64              // bits, by place
}

// newPlacer returns a placer of about n records.
func newPlacer(n, stride int, write func(rows []byte) error) *placer {
	lines := linesFor(n)
	return &placer{lines: lines, stride: stride, write: write, index: make(index, 0, lines*lineBytes)}
}

// add adds a record and returns the memory for its row.
func (p *placer) add(hash, key uint64) (row []byte, err error) {
	for line, _ := lineOf(hash, p.lines); uint64(len(p.index)) < line*lineBytes; {
		if err := p.flush(); err != nil {
			return nil, err
		}
	}
	at := len(p.records)
	p.hashes = append(p.hashes, hash)
	p.records = slices.Grow(p.records, p.stride)[:at+p.stride]
	binary.LittleEndian.PutUint64(p.records[at:], key)
	return p.records[at+keyBytes:], nil
}

// end writes the rest of the records.
func (p *placer) end() error {
	for uint64(len(p.index)) < p.lines*lineBytes {
		if err := p.flush(); err != nil {
			return err
		}
	}
	return nil
}

// flush writes the records of a line.
func (p *placer) flush() error {
	n := len(p.hashes)
	var line [lineBytes]byte
	binary.LittleEndian.PutUint32(line[:], p.n)
	binary.LittleEndian.PutUint32(line[4:], uint32(n))
	p.place(line[8:])
	p.index = append(p.index, line[:]...)
	p.placed = slices.Grow(p.placed[:0], n*p.stride)[:n*p.stride]
	for i, place := range p.places {
		copy(p.placed[int(place)*p.stride:], p.records[i*p.stride:(i+1)*p.stride])
	}
	p.n += uint32(n)
	p.hashes, p.records = p.hashes[:0], p.records[:0]
	return p.write(p.placed)
}

// place finds a place for each hash, and the pilots that lead there.
func (p *placer) place(pilots []byte) {
	n := len(p.hashes)
	p.places = slices.Grow(p.places[:0], n)[:n]
	words := (n + 63) / 64
	p.taken = slices.Grow(p.taken[:0], words)[:words]
	clear(p.taken)
	p.divide()
	unplaced := p.order[:0]
	for _, b := range p.order {
		lo, hi := p.from[b], p.from[b+1]
		pilot := p.pilot(p.hashes[lo:hi], p.places[lo:hi])
		binary.LittleEndian.PutUint16(pilots[2*b:], pilot)
		if pilot == anyPlace {
			unplaced = append(unplaced, b)
		}
	}
	free := uint32(0)
	for _, b := range unplaced {
		for i := p.from[b]; i < p.from[b+1]; i++ {
			for p.has(free) {
				free++
			}
			p.places[i] = free
			free++
		}
	}
}

// divide finds the hashes of each bucket and orders buckets by size: a large one can hardly be
// placed when few places are left.
func (p *placer) divide() {
	clear(p.from[:])
	for _, h := range p.hashes {
		_, rest := lineOf(h, p.lines)
		p.from[bucketOf(rest)+1]++
	}
	largest := int32(0)
	for b := range linePilots {
		largest = max(largest, p.from[b+1])
		p.from[b+1] += p.from[b]
	}
	p.order = p.order[:0]
	for size := min(largest, maxTogether+1); size > 0; size-- {
		for b := range int32(linePilots) {
			if min(p.from[b+1]-p.from[b], maxTogether+1) == size {
				p.order = append(p.order, b)
			}
		}
	}
}

func (p *placer) has(place uint32) bool { return p.taken[place/64]>>(place%64)&1 != 0 }

// pilot finds a pilot that gives free and different places to hashes.
func (p *placer) pilot(hashes []uint64, places []uint32) uint16 {
	if len(hashes) > maxTogether {
		return anyPlace
	}
	n := uint32(len(p.hashes))
next:
	for pilot := range uint16(anyPlace) {
		for i, h := range hashes {
			x := placeOf(h, pilot, n)
			if p.has(x) {
				p.release(places[:i])
				continue next
			}
			places[i] = x
			p.taken[x/64] |= 1 << (x % 64)
		}
		return pilot
	}
	return anyPlace
}

// release frees places.
func (p *placer) release(places []uint32) {
	for _, x := range places {
		p.taken[x/64] &^= 1 << (x % 64)
	}
}

// maxTogether is the number of hashes in a bucket beyond which no pilot is searched for. Of
// random hashes, a bucket has two on average.
const maxTogether = 32

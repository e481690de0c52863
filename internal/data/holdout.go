package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/wdlrun/wdlrun/internal/data/date"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/wire"
)

// holdOut selects records for validation: by position, a share of each class, by a field that groups
// them, or the newest by a field.
type holdOut struct {
	seed   uint64
	limit  uint64 // share · 2^64
	label  bool   // by class
	group  string
	time   string
	newest float64 // share of the records

	pattern *date.Format // of time; nil: numbers and ISO dates
}

// selection decides which records a Select contains.
type selection struct {
	hold  holdOut
	times *Times   // of the records; nil before UseTimes
	kept  [][]byte // by block, the records held out by class or by the value of a field; see rowBits

	drop    holdOut  // selects the negatives left out of Train
	dropped [][]byte // by block
}

// holds reports whether row r of block b is held out by its position. The position within
// a block is known wherever the block is read, so no rank needs the count of earlier
// records.
func (h *holdOut) holds(b int, r int32) bool {
	return h.limit > 0 && mixed(h.seed, uint64(b), uint64(r)) < h.limit
}

// picks reports whether record n of a class in block b is held out. The records of a class in a block
// are divided into cells of 1/share records each, and one record of each cell is drawn.
func (h *holdOut) picks(b, class int, n int64) bool {
	share := math.Ldexp(float64(h.limit), -64)
	for cell := int64(float64(n) * share); float64(cell) <= float64(n+1)*share; cell++ {
		drawn := math.Ldexp(float64(mixed(h.seed, uint64(b), uint64(class), uint64(cell))), -64)
		if int64((float64(cell)+drawn)/share) == n {
			return true
		}
	}
	return false
}

// field returns the field by whose value records are selected, "" for none.
func (h *holdOut) field() string { return h.group + h.time }

// maxByLabel is the size in bytes up to which records are held out by class, for which a bit for each
// record is kept in memory. Larger data have enough records of each class.
const maxByLabel = 4 << 30

// HoldOutByLabel is HoldOut of the same share of the records of each class.
func HoldOutByLabel(d *Dataset, share float64, seed uint64) error {
	err := d.HoldOut(share, seed)
	d.hold.label = !d.schema.Label.IsNumber() && d.Bytes() <= maxByLabel
	return err
}

// HoldOutGroups is HoldOut of a share of the groups: of the records with one value of a
// field, all or none are held out. Records without a value are not held out. The schema of
// Open must name the field as HoldOut.
func (d *Dataset) HoldOutGroups(field string, share float64, seed uint64) error {
	err := d.HoldOut(share, seed)
	d.hold.group = field
	return err
}

// HoldOutNewest is HoldOut of the newest records by a field of numbers or ISO dates, or of
// dates in the pattern of a feature of the field, if that names one.
// Records of the same time are on the same side. Records without a time are not held out.
// The schema of Open must name the field as HoldOut. Call ScanTimes and UseTimes before
// Scan.
func (d *Dataset) HoldOutNewest(field string, share float64) error {
	err := d.HoldOut(share, 0)
	d.hold = holdOut{time: field, newest: share}
	for _, f := range d.schema.Features {
		if f.Field == field && strings.Contains(f.Format, "%") && err == nil {
			var pattern date.Format
			pattern, err = date.NewFormat(f.Format)
			d.hold.pattern = &pattern
		}
	}
	return err
}

// NeedsTimes reports whether ScanTimes and UseTimes must be called before Scan.
func (d *selection) NeedsTimes() bool { return d.hold.time != "" && d.times == nil }

// holdsOut reports whether anything is held out.
func (d *selection) holdsOut() bool { return d.hold.limit > 0 || d.hold.time != "" }

// holds reports whether row r of block b is held out.
func (d *selection) holds(b int, r int32) bool {
	if d.hold.field() == "" && !d.hold.label {
		return d.hold.holds(b, r)
	}
	return hasBit(d.kept[b], r)
}

// keeper decides in a scan which records are held out.
type keeper struct {
	hold   *holdOut
	column int    // -1: selected by position
	times  *Times // to be gathered; nil: records are held out by value
	cut    *Times
	kept   rowBits
	seen   [2]int64 // records of each class in the current block
}

// newKeeper returns the keeper of a scan whose records c checks. If times is not nil, the
// scan only gathers times.
func (d *selection) newKeeper(c *encode.RowCoder, times *Times) (keeper, error) {
	if d.hold.time != "" && times == nil && d.times == nil {
		return keeper{}, errors.New("hold out: ScanTimes and UseTimes come before Scan")
	}
	k := keeper{times: times, hold: &d.hold, column: -1, cut: d.times}
	if field := d.hold.field(); field != "" {
		if k.column = c.Column(field); k.column < 0 {
			return k, fmt.Errorf("hold out: the schema does not name field %s", field)
		}
	}
	k.kept = newRowBits()
	return k, nil
}

// end ends a block.
func (k *keeper) end(b, records int32) {
	k.kept.end(b, records)
	k.seen = [2]int64{}
}

// byLabel reports whether the next record of a class, row r of block b, is held out.
func (k *keeper) byLabel(b int, r int32, class int) bool {
	ok := k.hold.limit > 0 && k.hold.picks(b, class, k.seen[class])
	if k.seen[class]++; ok {
		k.kept.add(r)
	}
	return ok
}

// holdOut reports whether the record checked last, row r of block b, is held out.
func (s *scanner) holdOut(b int, r int32) bool {
	k := &s.keeper
	switch {
	case k.hold.label && s.Positive():
		return k.byLabel(b, r, 1)
	case k.hold.label:
		return k.byLabel(b, r, 0)
	case k.column < 0:
		return k.hold.holds(b, r)
	}
	text, ok := s.Text(k.column)
	switch {
	case !ok:
		return false
	case k.times != nil:
		k.times.add(text, b, r, s.Positive())
		return false
	case k.hold.group != "":
		ok = mixed(k.hold.seed, xxh3.Hash(text)) < k.hold.limit
	default:
		ok = k.cut.holds(text)
	}
	if ok {
		k.kept.add(r)
	}
	return ok
}

func appendKept(b []byte, kept map[int32][]byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(kept)))
	for _, block := range slices.Sorted(maps.Keys(kept)) {
		b = binary.AppendUvarint(b, uint64(block))
		b = append(binary.AppendUvarint(b, uint64(len(kept[block]))), kept[block]...)
	}
	return b
}

func keptFrom(r *wire.Reader) map[int32][]byte {
	kept := map[int32][]byte{}
	for range r.Length(record.MaxBlocks, 2) {
		block := r.Count()
		bits := append([]byte{}, r.Bytes(math.MaxInt32/8+1)...)
		if block >= record.MaxBlocks {
			r.Fail("block %d", block)
		}
		if r.Err != nil {
			return nil
		}
		kept[int32(block)] = bits
	}
	return kept
}

// addKept adds the blocks of kept to the blocks of to.
func addKept(to *map[int32][]byte, kept map[int32][]byte) {
	if *to == nil {
		*to = map[int32][]byte{}
	}
	maps.Copy(*to, kept)
}

// useKept sets the records held out by value and the negatives left out.
func (d *selection) useKept(c *Counts, t *totals) error {
	d.kept, d.dropped = make([][]byte, len(t.records)), make([][]byte, len(t.records))
	for to, of := range map[*[][]byte]map[int32][]byte{&d.kept: c.kept, &d.dropped: c.dropped} {
		for block, bits := range of {
			if int(block) >= len(t.records) || len(bits) > 0 && len(bits) != int(t.records[block]+7)/8 {
				return fmt.Errorf("use: %d bytes for the held-out records of block %d", len(bits), block)
			}
			(*to)[block] = bits
		}
	}
	return nil
}

package data

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/date"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/data/wire"
)

// Times are the values of a field by which records are ordered in time: numbers, such as
// Unix seconds or 14102107 for an hour, or ISO dates, whichever more records have; or dates
// in the pattern of holdOut. Each rank gathers the times of its part in ScanTimes. The merged result is the same for any
// number of ranks.
type Times struct {
	numbers, dates spread
	pattern        *date.Format // nil: numbers and ISO dates
	cut            uint64       // order-preserving code of the oldest held-out time
	Unread         int64        // values that are not a time
	Usable         int64        // records, with or without a time
	Held, All      int64        // held-out records, and records with a time; set by UseTimes
	drawn          timeSample   // some records
}

// spread counts values by their code of placeOf. It keeps at most maxPlaces distinct
// codes; above that, neighbouring float64 values count as equal.
type spread struct {
	shift uint
	n     map[uint64]int64
	all   int64
}

const maxPlaces = 1 << 16

// placeOf returns a code of x whose unsigned order is the order of x.
func placeOf(x float64) uint64 {
	b := math.Float64bits(x)
	if b>>63 == 1 {
		return ^b
	}
	return b | 1<<63
}

func valueAt(place uint64) float64 {
	if place>>63 == 1 {
		return math.Float64frombits(place &^ (1 << 63))
	}
	return math.Float64frombits(^place)
}

func (s *spread) add(place uint64, n int64) {
	if s.n == nil {
		s.n = map[uint64]int64{}
	}
	s.n[place>>s.shift] += n
	s.all += n
	for len(s.n) > maxPlaces {
		s.coarsen()
	}
}

// coarsen halves the resolution.
func (s *spread) coarsen() {
	coarse := make(map[uint64]int64, len(s.n))
	for place, n := range s.n {
		coarse[place>>1] += n
	}
	s.shift, s.n = s.shift+1, coarse
}

// merge adds counts. The resolution of the sum is the finest that fits, whatever the order
// of merging.
func (s *spread) merge(o *spread) {
	for s.shift < o.shift {
		s.coarsen()
	}
	for place, n := range o.n {
		s.add(place<<o.shift, n)
	}
}

// newest returns the cut whose tail is the nearest to the given share of all values,
// neither empty nor all of them. ok is false if all values are the same.
func (s *spread) newest(share float64) (cut uint64, held int64, ok bool) {
	places := slices.Sorted(maps.Keys(s.n))
	want, tail := float64(share*float64(s.all)), int64(0)
	for _, p := range slices.Backward(places[min(1, len(places)):]) {
		tail += s.n[p]
		if held > 0 && math.Abs(float64(tail)-want) >= math.Abs(float64(held)-want) {
			break
		}
		cut, held = p<<s.shift, tail
	}
	return cut, held, held > 0
}

// read returns a value as a number, or as the seconds of a date.
func (t *Times) read(text []byte) (x float64, isDate, ok bool) {
	format := date.NewISO()
	if t.pattern != nil {
		format = *t.pattern
	} else if x, why := value.ParseNumber(text); why == "" {
		return x, false, true
	}
	seconds, ok := format.Seconds(text)
	return float64(seconds), true, ok
}

// add adds the value of a record at a position.
func (t *Times) add(text []byte, block int, row int32, positive bool) {
	x, isDate, ok := t.read(text)
	switch {
	case !ok:
		t.Unread++
		return
	case isDate:
		t.dates.add(placeOf(x), 1)
	default:
		t.numbers.add(placeOf(x), 1)
	}
	t.drawn.add(timed{block, row, placeOf(x), isDate, positive})
}

// kind returns the spread of the kind of time that more records have.
func (t *Times) kind() (s *spread, dates bool) {
	if t.dates.all > t.numbers.all {
		return &t.dates, true
	}
	return &t.numbers, false
}

// holds reports whether a record of this time is held out.
func (t *Times) holds(text []byte) bool {
	_, dates := t.kind()
	x, isDate, ok := t.read(text)
	return ok && isDate == dates && placeOf(x) >= t.cut
}

// From returns the oldest held-out time.
func (t *Times) From() string {
	x := valueAt(t.cut)
	if _, dates := t.kind(); dates {
		return time.Unix(int64(x), 0).UTC().Format(time.RFC3339)
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// ScanTimes reads a part, as Scan does, and returns the times of its records.
func (d *Dataset) ScanTimes(ctx context.Context, part, parts int, progress func(bytes int64)) (*Times, error) {
	s, err := d.newScanner(d.schema)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	t := &Times{pattern: d.hold.pattern}
	if s.keeper, err = d.newKeeper(s.RowCoder, t); err != nil {
		return nil, err
	}
	s.byColumn()
	n, done := len(d.set.Blocks), int64(0)
	for b := n * part / parts; b < n*(part+1)/parts; b++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := s.block(ctx, b)
		if err != nil {
			return nil, err
		}
		t.Usable += int64(n.records)
		if done += d.set.BytesOf(b); progress != nil {
			progress(done)
		}
	}
	return t, nil
}

// ErrOneTime means that no records can be held out as the newest.
var ErrOneTime = errors.New("have the same time")

// UseTimes sets which records are held out, from the merged times of all parts. If there are no
// records, Use reports that.
func (d *selection) UseTimes(t *Times) error {
	t.pattern = d.hold.pattern
	s, dates := t.kind()
	if dates {
		t.Unread += t.numbers.all
	} else {
		t.Unread += t.dates.all
	}
	var ok bool
	switch t.cut, t.Held, ok = s.newest(d.hold.newest); {
	case t.Usable == 0:
	case s.all == 0 && t.Unread > 0 && t.pattern != nil:
		return fmt.Errorf("hold out: none of the %d values of field %s is a date in the format of its features", t.Unread, d.hold.time)
	case s.all == 0 && t.Unread > 0:
		return fmt.Errorf("hold out: none of the %d values of field %s is a number or an ISO date (2026-11-22T10:00:00Z); for other dates, set features[].format of a feature of this field, such as encode: age", t.Unread, d.hold.time)
	case s.all == 0:
		return fmt.Errorf("hold out: no record has a value of field %s", d.hold.time)
	case !ok:
		return fmt.Errorf("hold out: all %d records %w, field %s", s.all, ErrOneTime, d.hold.time)
	}
	t.All = s.all
	d.times = t
	return nil
}

// InTimeOrder reports whether the records of d are in the order of their times, but for differences of
// less than a tenth of the records, such as those of a day in several files. Of each class, nearly all
// records must be: records sorted by their label are not in the order of time, however few are positive.
// It needs UseTimes.
func InTimeOrder(d *Dataset) bool {
	if d.times == nil {
		return false
	}
	_, dates := d.times.kind()
	return d.times.drawn.ordered(dates)
}

const timesMagic = "wdltim2\n"

// Marshal encodes t for Merge.
func (t *Times) Marshal() []byte {
	b := binary.AppendUvarint([]byte(timesMagic), uint64(t.Unread))
	b = binary.AppendUvarint(b, uint64(t.Usable))
	for _, s := range []*spread{&t.numbers, &t.dates} {
		b = append(b, byte(s.shift))
		b = binary.AppendUvarint(b, uint64(len(s.n)))
		last := uint64(0)
		for _, place := range slices.Sorted(maps.Keys(s.n)) {
			b = binary.AppendUvarint(b, place-last)
			b = binary.AppendUvarint(b, uint64(s.n[place]))
			last = place
		}
	}
	return t.drawn.marshal(b)
}

// Merge adds the encoded times of another part. After an error t must not be used.
func (t *Times) Merge(b []byte) error {
	r := &wire.Reader{B: b}
	r.Magic(timesMagic)
	t.Unread += r.Count()
	t.Usable += r.Count()
	for _, s := range []*spread{&t.numbers, &t.dates} {
		shift := r.Byte()
		if shift > 63 {
			r.Fail("a resolution of 2^%d", shift)
			break
		}
		o := spread{shift: uint(shift), n: map[uint64]int64{}}
		place := uint64(0)
		for range r.Length(maxPlaces, 2) {
			place += r.Uvarint()
			n := r.Positive()
			if r.Err != nil {
				break
			}
			o.n[place] += n
		}
		if r.Err == nil {
			s.merge(&o)
		}
	}
	t.drawn.merge(r)
	if err := r.End(); err != nil {
		return fmt.Errorf("merge: broken times: %w", err)
	}
	return nil
}

package encode

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/wire"
)

// A sketch counts the values of a numeric column. Up to maxEntries distinct values are
// exact. If there are more, all are rounded down to the finest grid that leaves at most
// maxEntries: the numbers whose float64 has drop low bits of 0. Each grid has half the
// points of the one before, so at least maxEntries/2 distinct values remain, whatever
// their offset. The 86,400 values of one day in Unix seconds are then 2 s apart.
//
// Grids are nested, so the sketch depends only on the values, not on their partition or
// the order of merging. Everything computed from it is therefore the same for any number
// of ranks.
//
// The grid of many values is fine compared with their range and, without an offset, with
// each value. One case is coarse: if values with an offset cluster, such as 10⁹ + eˣ with
// uniform x from −30 to 30, one grid point may hold a large share of them.
type sketch struct {
	drop    uint    // low bits of the float64 that are dropped
	counts  counter // by bits of the rounded value
	least   float64 // of the values, exact
	most    float64
	missing int64
}

const (
	coarsestDrop = 52 // all bits of the fraction: at most 4096 values differ in sign and exponent
	maxEntries   = 1 << 16
)

func newSketch() *sketch {
	return &sketch{counts: newCounter(0), least: math.Inf(1), most: math.Inf(-1)}
}

// roundDown returns the bits of the largest number of the grid that is at most x.
func roundDown(x float64, drop uint) uint64 {
	if x == 0 {
		return 0 // also for −0
	}
	u, low := math.Float64bits(x), uint64(1)<<drop-1
	if x < 0 && u&low != 0 {
		return (u | low) + 1 // away from zero
	}
	return u &^ low
}

func (s *sketch) add(x float64) { s.addMany(x, 1) }

func (s *sketch) addMany(x float64, n int64) {
	s.span(x, x)
	s.addRounded(roundDown(x, s.drop), n)
}

// span extends the range of the values to include least and most.
func (s *sketch) span(least, most float64) {
	if least < s.least {
		s.least = least + 0 // −0 becomes 0
	}
	if most > s.most {
		s.most = most + 0
	}
}

// extent returns the least and the greatest value, or nil if there are none.
func (s *sketch) extent() []float64 {
	if s.counts.n == 0 {
		return nil
	}
	return []float64{s.least, s.most}
}

func (s *sketch) addRounded(u uint64, n int64) {
	s.counts.add(u, n)
	for s.counts.n > maxEntries && s.drop < coarsestDrop {
		s.coarsen(s.drop + 1)
	}
}

func (s *sketch) coarsen(drop uint) {
	coarse := newCounter(s.counts.n)
	for u, n := range s.counts.all {
		coarse.add(roundDown(math.Float64frombits(u), drop), n)
	}
	s.drop, s.counts = drop, coarse
}

func (s *sketch) merge(o *sketch) {
	if o.drop > s.drop {
		s.coarsen(o.drop)
	}
	s.counts.reserve(min(s.counts.n+o.counts.n, maxEntries))
	for u, n := range o.counts.all {
		s.addRounded(roundDown(math.Float64frombits(u), s.drop), n)
	}
	s.span(o.least, o.most)
	s.missing += o.missing
}

// counted is a value and its count.
type counted struct {
	value float64
	n     int64
}

func (s *sketch) sorted() []counted {
	all := make([]counted, 0, s.counts.n)
	for u, n := range s.counts.all {
		all = append(all, counted{math.Float64frombits(u), n})
	}
	slices.SortFunc(all, func(a, b counted) int {
		if a.value < b.value {
			return -1
		}
		return 1
	})
	return all
}

// moments returns the mean and standard deviation of f over the values; 0, 0 if there are
// none. It sums differences from one of them, which are small even for a large offset.
func (s *sketch) moments(f func(float64) float64) (mean, deviation float64) {
	all, n := s.sorted(), 0.0
	if len(all) == 0 {
		return 0, 0
	}
	origin, sum := f(all[len(all)/2].value), 0.0
	for _, c := range all {
		n += float64(c.n)
		sum += float64(float64(c.n) * (f(c.value) - origin))
	}
	sum /= n
	for _, c := range all {
		d := f(c.value) - origin - sum
		deviation += float64(float64(c.n) * d * d)
	}
	return origin + sum, math.Sqrt(deviation / n)
}

// limits returns the ascending limits between at most q intervals that hold about equally
// many records. A value that fills an interval's share, such as the 0 of a counter that is
// mostly 0, gets a separate interval; the others share the rest. With plain quantiles such
// a value would absorb the limits of the few informative records. Equal limits are merged,
// so there may be fewer. The method follows histogram-based gradient boosting (Ke et al.
// 2017, LightGBM).
func (s *sketch) limits(q int64) (limits []float64) {
	all, n := s.sorted(), int64(0)
	for _, c := range all {
		n += c.n
	}
	frequent := func(c counted) bool { return c.n*q >= n }
	rest, bins := n, q // records of the other values, and intervals for them
	for _, c := range all {
		if frequent(c) {
			rest, bins = rest-c.n, bins-1
		}
	}
	have := int64(0) // records since the last limit
	for j, c := range all {
		if j+1 == len(all) {
			break
		}
		if !frequent(c) {
			have += c.n
		}
		switch {
		case frequent(c): // an unfinished interval before it is merged with it
			rest -= have
		case have*bins >= rest, frequent(all[j+1]) && bins > 1 && 2*have*bins >= rest:
			rest, bins = rest-have, bins-1
		default:
			continue
		}
		limits, have = append(limits, all[j+1].value), 0
	}
	return limits
}

// append encodes the sketch: drop, missing, least, most, entries, then for each entry in
// ascending order the difference of value bits >> drop and the count.
func (s *sketch) append(b []byte) []byte {
	all := make([]slot, 0, s.counts.n)
	for u, n := range s.counts.all {
		all = append(all, slot{u, n})
	}
	slices.SortFunc(all, func(a, b slot) int { return cmp.Compare(a.key, b.key) })
	b = append(b, byte(s.drop))
	b = binary.AppendUvarint(b, uint64(s.missing))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(s.least))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(s.most))
	b = binary.AppendUvarint(b, uint64(len(all)))
	last := uint64(0)
	for _, c := range all {
		b = binary.AppendUvarint(b, c.key>>s.drop-last)
		b = binary.AppendUvarint(b, uint64(c.n))
		last = c.key >> s.drop
	}
	return b
}

// sketchFrom decodes the output of append.
func sketchFrom(r *wire.Reader) *sketch {
	s := newSketch()
	s.drop = uint(r.Byte())
	if s.drop > coarsestDrop {
		r.Fail("a sketch drops %d bits", s.drop)
		return s
	}
	s.missing = r.Count()
	s.least, s.most = math.Float64frombits(r.Uint64()), math.Float64frombits(r.Uint64())
	n := r.Length(maxEntries, 2)
	if n > 0 && !(s.least <= s.most && math.Abs(s.least) < 1e39 && math.Abs(s.most) < 1e39) {
		r.Fail("a sketch ranges from %v to %v", s.least, s.most)
	}
	key := uint64(0)
	for i := range n {
		d := r.Uvarint()
		key += d
		x := math.Float64frombits(key << s.drop)
		if i > 0 && d == 0 || key > math.MaxUint64>>s.drop || key < d || !(math.Abs(x) < 1e39) || key<<s.drop == 1<<63 {
			r.Fail("a sketch holds no valid value")
		}
		if r.Err != nil {
			return s
		}
		s.counts.add(key<<s.drop, max(r.Positive(), 1))
	}
	return s
}

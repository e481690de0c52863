package encode

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/data/wire"
)

// A sketch counts the values of a numeric column. Values are rounded down to a
// grid of 13 significant bits, so integers up to 8191 are exact and others off
// by at most 2⁻¹² of themselves. Where that leaves more than mostEntries
// distinct values, the grid is made coarser, bit by bit.
//
// Grids are nested, so the sketch of all values is a function of the values
// alone: it does not depend on how they were dealt over parts, or on the order
// of merging. Everything computed from it is therefore the same for any number
// of ranks.
type sketch struct {
	drop    uint             // low bits of the float64 that are not kept
	counts  map[uint64]int64 // by bits of the rounded value
	missing int64
}

const (
	finestDrop   = 40 // of the 52 bits of the fraction
	coarsestDrop = 52 // at most 4096 values differ in sign and exponent alone
	mostEntries  = 1 << 16
)

func newSketch() *sketch { return &sketch{drop: finestDrop, counts: map[uint64]int64{}} }

// roundDown returns the bits of the largest number of the grid that is at most x.
func roundDown(x float64, drop uint) uint64 {
	if x == 0 {
		return 0 // −0 as well
	}
	u, low := math.Float64bits(x), uint64(1)<<drop-1
	if x < 0 && u&low != 0 {
		return (u | low) + 1 // away from zero
	}
	return u &^ low
}

func (s *sketch) add(x float64) { s.addRounded(roundDown(x, s.drop), 1) }

func (s *sketch) addRounded(u uint64, n int64) {
	s.counts[u] += n
	for len(s.counts) > mostEntries && s.drop < coarsestDrop {
		s.coarsen(s.drop + 1)
	}
}

func (s *sketch) coarsen(drop uint) {
	coarse := make(map[uint64]int64, len(s.counts)/2)
	for u, n := range s.counts {
		coarse[roundDown(math.Float64frombits(u), drop)] += n
	}
	s.drop, s.counts = drop, coarse
}

func (s *sketch) merge(o *sketch) {
	if o.drop > s.drop {
		s.coarsen(o.drop)
	}
	for u, n := range o.counts {
		s.addRounded(roundDown(math.Float64frombits(u), s.drop), n)
	}
	s.missing += o.missing
}

// counted is a value and how often it occurs.
type counted struct {
	value float64
	n     int64
}

func (s *sketch) sorted() []counted {
	all := make([]counted, 0, len(s.counts))
	for u, n := range s.counts {
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

// moments returns the mean and standard deviation of f over the values; 0, 0
// if there are none.
func (s *sketch) moments(f func(float64) float64) (mean, deviation float64) {
	all, n := s.sorted(), 0.0
	for _, c := range all {
		n += float64(c.n)
		mean += float64(c.n) * f(c.value)
	}
	if n == 0 {
		return 0, 0
	}
	mean /= n
	for _, c := range all {
		d := f(c.value) - mean
		deviation += float64(c.n) * d * d
	}
	return mean, math.Sqrt(deviation / n)
}

// limits returns the ascending limits between at most q intervals that hold
// about equally many records. A value that alone fills an interval's share of
// them, such as the 0 of a counter that is mostly 0, has an interval of its own
// and the others share what is left; with plain quantiles such a value would
// swallow the limits of the few records that tell something. Equal limits are
// one, so there may be fewer. The idea is that of histogram-based gradient
// boosting (Ke et al. 2017, LightGBM).
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
	have := int64(0) // of them, since the last limit
	for j, c := range all {
		if j+1 == len(all) {
			break
		}
		if !frequent(c) {
			have += c.n
		}
		switch {
		case frequent(c): // what came before it and was too little joins it
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

// append encodes the sketch: drop, missing, entries, then value bits >> drop as
// differences of their ascending order and counts.
func (s *sketch) append(b []byte) []byte {
	keys := make([]uint64, 0, len(s.counts))
	for u := range s.counts {
		keys = append(keys, u)
	}
	slices.Sort(keys)
	b = append(b, byte(s.drop))
	b = binary.AppendUvarint(b, uint64(s.missing))
	b = binary.AppendUvarint(b, uint64(len(keys)))
	last := uint64(0)
	for _, u := range keys {
		b = binary.AppendUvarint(b, u>>s.drop-last)
		b = binary.AppendUvarint(b, uint64(s.counts[u]))
		last = u >> s.drop
	}
	return b
}

// sketchFrom decodes what append made.
func sketchFrom(r *wire.Reader) *sketch {
	s := newSketch()
	s.drop = uint(r.Byte())
	if s.drop < finestDrop || s.drop > coarsestDrop {
		r.Fail("a sketch drops %d bits", s.drop)
		return s
	}
	s.missing = r.Count()
	n := r.Length(mostEntries, 2)
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
		s.counts[key<<s.drop] = r.Positive()
	}
	return s
}

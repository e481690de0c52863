package signal

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/wire"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// table generates a table. Its columns are a number that shifts with the label, noise, an
// identifier, the label, a value that is missing for one class, and the noise as a
// category.
func table(seed uint64, n int, rate float64, add func(key uint64, one bool, words []uint64)) {
	r := rand.New(rand.NewPCG(seed, 1))
	for range n {
		one := r.Float64() < rate
		shift, self, there := 0.0, uint64(7), Missing
		if one {
			shift, self, there = 1, 9, Word(r.Float64())
		}
		noise := Word(math.Floor(10 * r.Float64()))
		add(r.Uint64(), one, []uint64{Word(r.NormFloat64() + shift), noise, r.Uint64(), self, there, noise})
	}
}

const columns = 6

func number(column int) bool { return column < 2 || column == 4 }

// TestOf checks columns whose AUC and information are known.
func TestOf(t *testing.T) {
	for _, rate := range []float64{0.5, 0.05} {
		s := New(columns, 1<<14)
		table(1, 200_000, rate, func(key uint64, one bool, words []uint64) {
			if s.Wants(key, one) {
				s.Add(key, one, words)
			}
		})
		// The AUC of two normal distributions one deviation apart is Φ(1/√2).
		shifted := 0.5 * (1 + math.Erf(0.5))
		entropy := -rate*math.Log2(rate) - (1-rate)*math.Log2(1-rate)
		for column, want := range []Signal{{AUC: shifted}, {AUC: 0.5}, {AUC: 0.5}, {AUC: 1, Bits: entropy}, {AUC: 1, Bits: entropy, Absence: true}, {AUC: 0.5}} {
			got := s.Of(column, number(column))
			if !got.Known || got.Absence != want.Absence || math.Abs(got.AUC-want.AUC) > 0.01 || got.Leaks() != (want.AUC == 1) {
				t.Errorf("rate %v, column %d: %+v, want %+v", rate, column, got, want)
			}
			if column != 0 && math.Abs(got.Bits-want.Bits) > 0.01 || column == 0 && (got.Bits < 0.02 || got.Bits > entropy/2) {
				t.Errorf("rate %v, column %d: %v bits, want %v of %v", rate, column, got.Bits, want.Bits, entropy)
			}
		}
	}
}

// TestMerge: the sample is the same for any division of a table.
func TestMerge(t *testing.T) {
	whole := New(columns, 100)
	table(2, 20_000, 0.3, func(key uint64, one bool, words []uint64) {
		if whole.Wants(key, one) {
			whole.Add(key, one, words)
		}
	})
	for _, parts := range []int{1, 2, 3, 7} {
		samples := make([]*Sample, parts)
		for i := range samples {
			samples[i] = New(columns, 100)
		}
		i := 0
		table(2, 20_000, 0.3, func(key uint64, one bool, words []uint64) {
			s := samples[i%parts]
			if i++; s.Wants(key, one) {
				s.Add(key, one, words)
			}
		})
		merged := New(columns, 100)
		for i := range samples {
			r := &wire.Reader{B: samples[parts-1-i].Append(nil)}
			part := From(r, columns, 100)
			if r.End() != nil {
				t.Fatal(r.End())
			}
			fatal.If(t, merged.Merge(part))
		}
		if string(merged.Append(nil)) != string(whole.Append(nil)) {
			t.Errorf("%d parts: another sample", parts)
		}
	}
}

// TestFew: with too few records of a class there is no signal.
func TestFew(t *testing.T) {
	s := New(1, 100)
	for i := range uint64(1000) {
		if one := i < fewest-1; s.Wants(i, one) {
			s.Add(i, one, []uint64{Word(float64(i))})
		}
	}
	if got := s.Of(0, true); got.Known || got.Leaks() {
		t.Errorf("%+v", got)
	}
}

// TestFewPerfect: a column that separates few records perfectly is a leak; one that nearly does is
// not known.
func TestFewPerfect(t *testing.T) {
	for n, want := range map[uint64]bool{perfect - 1: false, 18: true} {
		s := New(2, 1000)
		for i := range uint64(1000) {
			one, nearly := i < n, i < n+3
			s.Add(i, one, []uint64{map[bool]uint64{true: 1}[one], map[bool]uint64{true: 1}[nearly]})
		}
		if got := s.Of(0, false); got.Leaks() != want {
			t.Errorf("%d ones: %+v", n, got)
		}
		if got := s.Of(1, false); got.Known {
			t.Errorf("%d ones, another column: %+v", n, got)
		}
	}
}

// FuzzFrom: a malformed message is an error.
func FuzzFrom(f *testing.F) {
	s := New(columns, 20)
	table(3, 200, 0.5, s.Add)
	f.Add(s.Append(nil))
	f.Add([]byte{columns, 1, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &wire.Reader{B: b}
		if s := From(r, columns, 20); r.End() == nil && s.columns > 0 {
			s.Of(0, true)
		}
	})
}

// TestConstantPredictsNothing: classes of odd sizes give the halves different shares of ones.
func TestConstantPredictsNothing(t *testing.T) {
	s := New(1, 1000)
	for i := range 301 {
		s.Add(uint64(i), i%3 == 0, []uint64{7})
	}
	if got := s.Of(0, true); got != (Signal{Known: true, AUC: 0.5}) {
		t.Errorf("%+v", got)
	}
}

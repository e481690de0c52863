package synth

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// MaxRow is the number of rows of a profile: beyond it draws would repeat.
const MaxRow = 1 << 55

// profile is the configuration of one data set.
type profile struct {
	name    string
	vocab   []int // values per categorical field
	dense   int
	a, b, c int64 // scales of values, pairs and slopes, in 1/256
	bias    int64 // units of 2^-16 logit
	gaps    bool  // some categorical values are missing
}

func profiles() []profile {
	return []profile{{
		name: "criteo",
		vocab: []int{1460, 583, 400000, 300000, 305, 24, 12517, 633, 3, 93145, 5683, 350000, 3194, 27,
			14992, 250000, 10, 5652, 2173, 4, 300000, 18, 15, 159457, 105, 100000},
		dense: 13, a: 90, b: 130, c: 56, bias: -98304, gaps: true,
	}, {
		name: "meituan",
		vocab: slices.Concat(slices.Repeat([]int{10}, 10), slices.Repeat([]int{100}, 10), slices.Repeat([]int{1000}, 10),
			slices.Repeat([]int{10000}, 10), slices.Repeat([]int{88890}, 10), slices.Repeat([]int{900000}, 10)),
		a: 60, b: 120, bias: -90112,
	}}
}

// Profiles returns the names of the data sets.
func Profiles() []string {
	var names []string
	for _, p := range profiles() {
		names = append(names, p.name)
	}
	return names
}

// The seeds of the draws of rows, and of the weights of the model.
const (
	seedRow   = 0x5EED0001
	seedValue = 0x5EED0002
	seedClass = 0x5EED0003
	seedPair  = 0x5EED0004
	seedSlope = 0x5EED0005
	seedDrift = 0x5EED0006
)

// The draws of a row, counted from 256 times its number.
const (
	drawValue   = 0   // + field
	drawMissing = 64  // + field
	drawDense   = 128 // + field
	drawLabel   = 255
)

const (
	gamma    = 0x9E3779B97F4A7C15 // splitmix64's increment
	noRank   = 1<<32 - 1          // the rank of a missing value
	pairs    = 8
	smallest = 128 // maximum number of values of fields used in pairs
)

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

func hash(seed, i uint64) uint64 { return mix(seed + (i+1)*gamma) }

func lanes(h uint64) int64 {
	return int64(h&0xFFFF+h>>16&0xFFFF+h>>32&0xFFFF+h>>48) - 131070
}

// token is a bijection of 32 bits (MurmurHash3's finalizer).
func token(h uint32) uint32 {
	h ^= h >> 16
	h *= 0x85EBCA6B
	h ^= h >> 13
	h *= 0xC2B2AE35
	return h ^ h>>16
}

// octave is a range of ranks with equal frequency.
type octave struct{ cum, lo, width uint64 }

// octaves spreads n values; cum is the running sum of weights.
func octaves(n int) (o []octave) {
	// round(2^24 · 2^-0.1j), as integers to be independent of libm.
	weight := [...]uint64{16777216, 15653696, 14605415, 13627334, 12714752, 11863283, 11068835, 10327588,
		9635980, 8990687, 8388608, 7826848, 7302707, 6813667, 6357376, 5931642,
		5534417, 5163794, 4817990, 4495344, 4194304, 3913424, 3651354, 3406833,
		3178688, 2965821, 2767209, 2581897, 2408995, 2247672, 2097152}
	cum := uint64(0)
	for j := 0; 1<<j <= n; j++ {
		lo := uint64(1)<<j - 1
		width := min(uint64(1)<<(j+1)-1, uint64(n)) - lo
		cum += weight[j] * width >> j
		o = append(o, octave{cum, lo, width})
	}
	return o
}

// pairing is one interaction of the model: fields f and g, and a weight for each pair of
// their classes.
type pairing struct {
	f, g   int
	weight [16]int64 // class of f · 4 + class of g
}

func planPairs(p profile) []pairing {
	var small []int
	for f, n := range p.vocab {
		if n <= smallest {
			small = append(small, f)
		}
	}
	k := len(small)
	if k == 0 {
		return nil
	}
	all := make([]pairing, pairs)
	for i := range all {
		x, y := 7*i%k, (11*i+3)%k
		if x == y {
			y = (y + 1) % k
		}
		all[i].f, all[i].g = small[x], small[y]
		for c := range all[i].weight {
			all[i].weight[c] = lanes(hash(seedPair, uint64(i*16+c))) * p.b >> 8
		}
	}
	return all
}

// clickSteps is the resolution of the label's probability.
const clickSteps = 1024

// clicks returns the logistic function in units of 2^-32, 64 steps per logit. No entry is
// near a rounding tie, so every libm gives these integers.
func clicks() (t [clickSteps]uint64) {
	for i := range t {
		t[i] = uint64(math.Floor(1<<32/(1+math.Exp(-(float64(i)-clickSteps/2+0.5)/64)) + 0.5))
	}
	return t
}

// Generator generates the rows of one profile.
type Generator struct {
	profile
	octaves [][]octave // per categorical field
	paired  []bool     // per categorical field: whether its class matters
	pairs   []pairing
	slopes  []int64 // per dense field
	drift   int64   // see Drift
	click   [clickSteps]uint64
}

// New returns the generator of a profile, in well under a millisecond.
func New(name string) (*Generator, error) {
	all := profiles()
	i := slices.IndexFunc(all, func(p profile) bool { return p.name == name })
	if i < 0 {
		return nil, fmt.Errorf("synth: new: there is no profile %q: use one of %s", name, strings.Join(Profiles(), ", "))
	}
	return newGenerator(all[i]), nil
}

// MaxFields and MaxDense bound the columns of a row, and MaxValues the values of a field.
const (
	MaxFields = drawDense
	MaxDense  = drawLabel - drawDense
	MaxValues = 1 << 30
)

// Shaped returns the generator of rows of any shape: with the given number of values for each
// categorical field, and with dense fields. The numbers must be within the limits above.
func Shaped(values []int, dense int) *Generator {
	return newGenerator(profile{vocab: values, dense: dense, a: 60, b: 120, c: 56, bias: -90112})
}

func newGenerator(p profile) *Generator {
	g := &Generator{profile: p, pairs: planPairs(p), click: clicks()}
	g.paired = make([]bool, len(g.vocab))
	for _, p := range g.pairs {
		g.paired[p.f], g.paired[p.g] = true, true
	}
	for _, n := range g.vocab {
		g.octaves = append(g.octaves, octaves(n))
	}
	for j := range g.dense {
		g.slopes = append(g.slopes, lanes(hash(seedSlope, uint64(j)))*g.c>>8)
	}
	return g
}

// driftDays is the number of days in which every value of a large field is replaced once.
const driftDays = 20

// Drift makes the rows drift: after each day of so many rows, a twentieth of the values of each field
// of more than 128 values is replaced by new ones, with other weights. 0: no drift.
func (g *Generator) Drift(rows int64) { g.drift = rows }

// drifted returns the number of the value that has a rank in a field at a row.
func (g *Generator) drifted(f int, rank uint64, n int64) uint64 {
	if g.drift == 0 || g.vocab[f] <= smallest || rank == noRank {
		return rank
	}
	phase := hash(seedDrift, uint64(f)<<32+rank) % driftDays
	lives := (uint64(n/g.drift) + phase) / driftDays
	return (rank + lives*uint64(g.vocab[f])) & (1<<32 - 1)
}

// Values returns the number of values of each categorical field.
func (g *Generator) Values() []int { return g.vocab }

// Dense returns the number of dense fields.
func (g *Generator) Dense() int { return g.dense }

// Header returns the names of the columns: label, I1 … for the dense and C1 … for the
// categorical fields. Write does not write it.
func (g *Generator) Header() []string {
	names := []string{"label"}
	for j := range g.dense {
		names = append(names, fmt.Sprintf("I%d", j+1))
	}
	for f := range g.vocab {
		names = append(names, fmt.Sprintf("C%d", f+1))
	}
	return names
}

// Row is one row before formatting.
type Row struct {
	Label bool
	Dense [MaxDense]int64 // per dense field; -1 is a missing value

	rank  [MaxFields]uint32 // per categorical field; noRank is a missing value
	click uint64            // probability of the label in units of 2^-32
}

// Token returns the value of a categorical field; ok is false if it is missing.
func (r *Row) Token(field int) (value uint32, ok bool) {
	rank := r.rank[field]
	return token(rank + uint32(field)*0x9E3779B1), rank != noRank
}

// Draw generates row n.
func (g *Generator) Draw(n int64, s *Row) {
	base := uint64(n) * 256
	score := g.bias
	var class [MaxFields]uint8
	for f, octaves := range g.octaves {
		rank := uint64(noRank)
		if !g.gaps || f%5 != 4 || hash(seedRow, base+drawMissing+uint64(f))&15 != 0 {
			rank = g.drifted(f, pick(octaves, hash(seedRow, base+drawValue+uint64(f))), n)
		}
		s.rank[f] = uint32(rank)
		key := uint64(f)<<32 + rank
		score += lanes(hash(seedValue, key)) * g.a >> 8
		if g.paired[f] {
			class[f] = uint8(hash(seedClass, key) >> 62)
		}
	}
	for i := range g.pairs {
		p := &g.pairs[i]
		score += p.weight[class[p.f]*4+class[p.g]]
	}
	for j, slope := range g.slopes {
		d := hash(seedRow, base+drawDense+uint64(j))
		if j%3 == 2 && d&31 == 0 {
			s.Dense[j] = -1
			continue
		}
		width := uint64(2 + j)
		x := d >> 32 << ((d >> 8 & 255) * width >> 8) >> 32
		s.Dense[j] = int64(x)
		v := 2*int64(bits.Len64(x)) - int64(width)
		if j%2 == 1 {
			v = max(v, -v)
		}
		score += slope * v >> 3
	}
	s.click = g.click[min(max(score>>10+clickSteps/2, 0), clickSteps-1)]
	s.Label = hash(seedRow, base+drawLabel)>>32 < s.click
}

// pick maps a draw to a rank.
func pick(octaves []octave, r uint64) uint64 {
	t := r >> 32 * octaves[len(octaves)-1].cum >> 32
	for i := range octaves {
		if o := &octaves[i]; o.cum > t {
			return o.lo + r&0xFFFFFFFF*o.width>>32
		}
	}
	panic("synth: a draw beyond the last octave") // t is below the last cum
}

// Truth returns the probability with which the label of a row was drawn, and the label. No
// model can predict better than it. It panics for a row outside 0 … MaxRow-1.
func (g *Generator) Truth(row int64) (probability float64, label bool) {
	if row < 0 || row >= MaxRow {
		panic(fmt.Sprintf("synth: Truth: row %d is outside 0 to %d", row, int64(MaxRow)-1))
	}
	var s Row
	g.Draw(row, &s)
	return float64(s.click) / (1 << 32), s.Label
}

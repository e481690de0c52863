package table

import (
	"math"
	"sync"
)

// curves has tables for approximations of logarithm, sine and cosine that are several times
// as fast as the functions of package math. An approximation is used only if its largest error
// cannot change the float32 that it is rounded to (see settled). Initial values therefore
// keep the bits of package math.
type curves struct {
	logs  [1 << logBits]struct{ inverse, log float64 } // of the middle of each part of [1, 2): 1/m and ln m
	turns [1 << turnBits]struct{ sin, cos float64 }    // of the middle of each part of a turn
}

const (
	logBits, turnBits = 7, 8
	// wordBits is the length of the random words of which normal values are made.
	wordBits = 52
	// nearOne bounds the logarithm from below in magnitude. The relative error of a smaller
	// one is too large. One value of 128 is nearer to 0.
	nearOne = 0x1p-7
	// slack is more than the errors of radius and of sine or cosine together, relative to
	// the radius. They are at most 2⁻⁴³. The errors of package math are below 2⁻⁴⁹.
	slack = 0x1p-40
)

var newCurves = sync.OnceValue(func() *curves {
	c := new(curves)
	for i := range c.logs {
		m := 1 + (float64(i)+0.5)/(1<<logBits)
		c.logs[i].inverse, c.logs[i].log = 1/m, math.Log(m)
	}
	for i := range c.turns {
		c.turns[i].sin, c.turns[i].cos = math.Sincos(2 * math.Pi * (float64(i) + 0.5) / (1 << turnBits))
	}
	return c
})

// polar returns approximations of √(−2·ln unit(a)), and of sine and cosine of unit(b) turns,
// of words a and b. ok is false if the first is too inexact.
func (c *curves) polar(a, b uint64) (radius, sin, cos float64, ok bool) {
	word := math.Float64bits(float64(int64(a)) + 0.5) // exact
	part := &c.logs[word>>(wordBits-logBits)&(1<<logBits-1)]
	m := math.Float64frombits(word&(1<<wordBits-1) | 1023<<wordBits)
	d := float64(m*part.inverse) - 1 // at most 2⁻⁸; the series of ln(1+d) ends after five terms
	series := 1./3 + float64(d*(-1./4+float64(d*(1./5))))
	series = -1./2 + float64(d*series)
	series = d + float64(float64(d*d)*series)
	exponent := float64(int64(word>>wordBits) - 1023 - wordBits)
	log := float64(exponent*math.Ln2) + (part.log + series)

	turn := &c.turns[b>>(wordBits-turnBits)]
	rest := float64(int64(b&(1<<(wordBits-turnBits)-1))-1<<(wordBits-turnBits-1)) + 0.5
	x := float64(rest * (2 * math.Pi / (1 << wordBits))) // at most π/256
	x2 := x * x
	s := 1./6 - float64(x2*(1./120))
	s = x - float64(float64(x*x2)*s)
	k := 1./24 - float64(x2*(1./720))
	k = 1./2 - float64(x2*k)
	k = 1 - float64(x2*k)
	sin = float64(turn.sin*k) + float64(turn.cos*s)
	cos = float64(turn.cos*k) - float64(turn.sin*s)
	return math.Sqrt(-2 * log), sin, cos, log < -nearOne
}

// settled returns v as float32, and whether every number within err of v has the same bits.
func settled(v, err float64) (w float32, ok bool) {
	w = float32(v - err)
	return w, math.Float32bits(w) == math.Float32bits(float32(v+err))
}

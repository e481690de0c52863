package inspect

import (
	"cmp"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/data/value"
)

// SureLikeness is the Likeness from which integers are probably identifiers. Chance alone
// gives about one column in 30,000 as much.
const SureLikeness = 4

// labelled is one record: the number in a column, and the label.
type labelled struct {
	x float64
	y float64 // 0 or 1
}

// likenessOf returns how much more alike the labels of records of the same number are than
// numbers nearby predict, in standard deviations. Near 0, the label changes smoothly with the
// number, or not at all: the numbers may be amounts. If it is large, each number has a mean
// label of its own, as identifiers have.
//
// The mean label expected of a number is estimated twice, from records of smaller and of
// larger numbers. If the label depends smoothly on the number, the deviations of two records
// from the two estimates are uncorrelated.
func likenessOf(all []labelled) float64 {
	slices.SortFunc(all, func(a, b labelled) int { return cmp.Compare(a.x, b.x) })
	sums := make([]float64, len(all)+1)
	for i, r := range all {
		sums[i+1] = sums[i] + r.y
	}
	const window, least = 50, 10 // records on each side
	total, squares := 0.0, 0.0
	for from, to := 0, 0; from < len(all); from = to {
		for to = from; to < len(all) && all[to].x == all[from].x; to++ {
		}
		first, last := max(0, from-window), min(len(all), to+window)
		if to-from < 2 || from-first < least || last-to < least {
			continue
		}
		below := (sums[from] - sums[first]) / float64(from-first)
		above := (sums[last] - sums[to]) / float64(last-to)
		ones := sums[to] - sums[from]
		n := float64(to - from)
		zeros := n - ones
		// The sum of (y1 - below) * (y2 - above) over pairs of different records.
		pairs := float64((ones-float64(n*below))*(ones-float64(n*above))) - float64(ones*(1-below)*(1-above)) - float64(zeros*below*above)
		pairs /= n - 1 // by chance, each number then counts the same
		total += pairs
		squares += float64(pairs * pairs)
	}
	if squares == 0 {
		return 0
	}
	return total / math.Sqrt(squares)
}

// measureLikeness computes the Likeness of columns of integers that may be amounts or
// identifiers.
func (in *Inspection) measureLikeness(label *Column) {
	for j := range in.Columns {
		c := &in.Columns[j]
		if c == label || c.Kind == "string" || !c.Integers || c.Many || c.Shape != Unclear || c.Distinct <= fewShapes {
			continue
		}
		var all []labelled
		for i := range in.Rows {
			own, of := c.cells.of(i), label.cells.of(i)
			if len(own) != 1 || len(of) != 1 {
				continue
			}
			r := labelled{}
			r.x, _ = value.ParseNumber([]byte(own[0]))
			if in.isOne(of[0]) {
				r.y = 1
			}
			all = append(all, r)
		}
		c.Likeness = likenessOf(all)
	}
}

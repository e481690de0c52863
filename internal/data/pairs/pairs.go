// Package pairs finds pairs of columns that say more about a label of two classes than their
// parts: candidates for crosses of the wide part.
//
// The parts are an additive model: logistic regression on one indicator per value of each
// column. Each row is scored by a model that was not fitted to it. For each pair of columns, one
// shrunken correction per combination of values is fitted to some rows, and its gain in log-loss
// is measured on others. What corrections of the two columns alone gain is subtracted.
//
// A pair counts if its gain is larger than chance explains, given the number of pairs that
// were tried. Pairs are chosen one by one, the best first. The corrections of each chosen pair
// are added to the scores, so that a second pair with the same information gains nothing.
//
// Time is O(rows × columns²), within a fixed limit: columns beyond it are skipped.
package pairs

import (
	"cmp"
	"math"
	"slices"
)

// Fewest is the minimum number of rows of each class.
const Fewest = 50

const (
	folds      = 5             // parts of the rows
	prior      = 3             // pseudo-information of each coefficient of the additive model
	shrink     = 10            // the same of each correction: it shrinks corrections of few rows
	most       = 12            // pairs chosen
	candidates = 100           // pairs measured exactly
	alpha      = 0.05          // probability that a table without interactions gives any pair
	least      = 0.0005        // minimum gain, as a share of the log-loss
	visits     = 1_000_000_000 // rows times pairs: the limit of time
	leaking    = 0.99          // AUC of a pair alone above which it counts as a leak
)

// Table holds the rows. Codes of a column are 0 … Size−1.
type Table struct {
	Columns []Column
	Ones    []bool // the labels
	Ordered bool   // rows are in the order of time: only earlier rows predict a row
}

// Column holds the values of a column. Code 0 are rare values.
type Column struct {
	Codes []int32 // by row
	Size  int     // number of codes
	Part  bool    // it only predicts as a part: no pair contains it
}

// Pair is a pair of columns, A before B.
type Pair struct {
	A, B         int
	Gain         float64 // in log-loss per row, on rows that did not fit it
	Combinations int     // that occur
}

// Found is the result of Search.
type Found struct {
	Rows    int
	Loss    float64 // log-loss of the additive model on rows that did not fit it
	Pairs   []Pair  // the best first
	Leaks   []Pair  // that predict nearly every label alone
	Tried   int     // pairs
	Skipped []int   // columns that no pair was tried of, because there are too many
	Few     bool    // there are too few rows of a class: nothing was tried
}

// threshold returns the standard deviations that the best of some pairs exceeds by chance with
// probability alpha.
func threshold(tried int) float64 {
	return math.Sqrt2 * math.Erfinv(1-2*alpha/float64(max(tried, 1)))
}

// scan is the state of a search.
type scan struct {
	*Table
	fold    []uint8
	logit   []float64 // of each row, from rows of other folds
	sums    []sum     // residual and information of each row at its logit
	singles []float64 // by column: gain of corrections of the column alone
	limit   float64   // standard deviations
}

// sum adds up residuals and information.
type sum struct{ residual, information float64 }

// fits reports whether rows of fold j may fit what is measured on fold k.
func (s *scan) fits(j, k int) bool { return j < k || j > k && !s.Ordered }

// measured reports whether the rows of a fold have scores. The oldest have none.
func (s *scan) measured(k int) bool { return k > 0 || !s.Ordered }

func (s *scan) update(i int) {
	if !s.measured(int(s.fold[i])) {
		return // neither fits nor measures a correction
	}
	p := 1 / (1 + math.Exp(-s.logit[i]))
	s.sums[i] = sum{-p, p * (1 - p)}
	if s.Ones[i] {
		s.sums[i].residual = 1 - p
	}
}

// loss returns the log-loss per measured row.
func (s *scan) loss() float64 {
	total, n := 0.0, 0
	for i, z := range s.logit {
		if s.measured(int(s.fold[i])) {
			total += lossAt(z, s.Ones[i])
			n++
		}
	}
	return total / float64(n)
}

func lossAt(logit float64, one bool) float64 {
	if one {
		logit = -logit
	}
	return max(logit, 0) + math.Log1p(math.Exp(-math.Abs(logit)))
}

// chosen returns the columns of which pairs are tried. If there are too many pairs, it skips the
// columns whose values say least about the label.
func (s *scan) chosen(f *Found) (columns []int) {
	for i := range s.Columns {
		if !s.Columns[i].Part && s.Columns[i].Size > 1 {
			columns = append(columns, i)
		}
	}
	keep := len(columns)
	for keep > 2 && keep*(keep-1)/2*f.Rows > visits {
		keep--
	}
	if keep == len(columns) {
		return columns
	}
	says := make([]float64, len(s.Columns))
	for _, i := range columns {
		says[i] = s.association(i)
	}
	slices.SortStableFunc(columns, func(a, b int) int { return cmp.Compare(says[b], says[a]) })
	f.Skipped = slices.Sorted(slices.Values(columns[keep:]))
	columns = columns[:keep]
	slices.Sort(columns)
	return columns
}

// association returns a measure of what the values of a column say about the label: the sum of squared
// deviations from the mean rate, in units of their variance, less what chance explains.
func (s *scan) association(column int) float64 {
	c := &s.Columns[column]
	rows, ones, all := make([]float64, c.Size), make([]float64, c.Size), 0.0
	for i, v := range c.Codes {
		rows[v]++
		if s.Ones[i] {
			ones[v]++
			all++
		}
	}
	rate, chi, values := all/float64(len(c.Codes)), 0.0, 0.0
	for v, n := range rows {
		if n > 0 {
			d := ones[v] - float64(n*rate)
			chi += d * d / (n * rate * (1 - rate))
			values++
		}
	}
	return (chi - values) / math.Sqrt(2*values)
}

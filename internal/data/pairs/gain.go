package pairs

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"sync"
)

// tried is a pair with its statistics.
type tried struct {
	Pair
	deviations float64 // gain over its standard deviation
}

// cell holds the sums of one combination of values by fold.
type cell struct {
	at   [folds]sum
	seen bool
}

// correction returns the correction of a combination for rows of fold k: what the rows of other
// folds that have this combination say.
func (s *scan) correction(c *cell, k int) float64 {
	var of sum
	for j := range c.at {
		if s.fits(j, k) {
			of.residual += c.at[j].residual
			of.information += c.at[j].information
		}
	}
	return shrunken(of)
}

// shrunken is one step of Newton's method from zero with a prior. A step is bounded: where ones
// are rare, the information at zero says little about larger steps.
func shrunken(of sum) float64 {
	const bound = 3
	return max(-bound, min(of.residual/(of.information+shrink), bound))
}

// gainOf returns the approximate gain of corrections on the rows of a combination, and its
// variance if the corrections are useless.
func (s *scan) gainOf(c *cell) (gain, variance float64) {
	for k := range c.at {
		if !s.measured(k) || c.at[k].information == 0 {
			continue
		}
		d := s.correction(c, k)
		square := float64(d * d * c.at[k].information)
		gain += float64(d*c.at[k].residual) - square/2
		variance += square
	}
	return gain, variance
}

// ForEach calls do for each column from 0 to n−1, on all CPUs of this process.
func ForEach(n int, do func(column int)) {
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	all.Wait()
}

// screen measures all pairs of columns approximately, and returns the best candidates.
func (s *scan) screen(columns []int) []tried {
	results := make([][]tried, len(columns))
	ForEach(len(columns), func(a int) { results[a] = s.pairsOf(columns[a], columns[a+1:]) })
	found := slices.Concat(results...)
	slices.SortStableFunc(found, func(a, b tried) int { return cmp.Compare(b.Gain, a.Gain) })
	return found[:min(len(found), candidates)]
}

// pairsOf measures the pairs of column a with others. Combinations with a rare value have no
// correction, since in a model each of the values has its own key.
func (s *scan) pairsOf(a int, others []int) (found []tried) {
	order, ends := s.grouped(a)
	for _, b := range others {
		c := &s.Columns[b]
		cells, touched := make([]cell, c.Size), make([]int32, 0, c.Size)
		x := tried{Pair: Pair{A: a, B: b}}
		variance, first := 0.0, ends[0]
		for _, end := range ends[1:] {
			for _, i := range order[first:end] {
				v := c.Codes[i]
				if v == 0 {
					continue
				}
				if !cells[v].seen {
					cells[v].seen = true
					touched = append(touched, v)
				}
				of := &cells[v].at[s.fold[i]]
				of.residual += s.sums[i].residual
				of.information += s.sums[i].information
			}
			for _, v := range touched {
				g, q := s.gainOf(&cells[v])
				x.Gain += g
				variance += q
				cells[v] = cell{}
			}
			x.Combinations += len(touched)
			touched, first = touched[:0], end
		}
		if s.judge(&x, variance); x.Gain > 0 {
			found = append(found, x)
		}
	}
	return found
}

// judge subtracts what the parts gain, and sets the statistics of a pair from its total gain.
func (s *scan) judge(x *tried, variance float64) {
	x.Gain -= max(0, s.singles[x.A]) + max(0, s.singles[x.B])
	x.deviations = x.Gain / math.Sqrt(variance+1e-12)
	x.Gain /= s.rows()
}

// rows returns the number of rows on which gains are measured.
func (s *scan) rows() float64 {
	if s.Ordered {
		return float64(len(s.Ones)) * (folds - 1) / folds
	}
	return float64(len(s.Ones))
}

// grouped returns the rows by the code of a column, and the end of each group.
func (s *scan) grouped(column int) (order []int32, ends []int) {
	c := &s.Columns[column]
	ends = make([]int, c.Size)
	for _, v := range c.Codes {
		ends[v]++
	}
	at := make([]int, c.Size)
	for v, total := 0, 0; v < c.Size; v++ {
		at[v] = total
		total += ends[v]
		ends[v] = total
	}
	order = make([]int32, len(c.Codes))
	for i, v := range c.Codes {
		order[at[v]] = int32(i)
		at[v]++
	}
	return order, ends
}

// measureSingles sets what corrections of single columns gain.
func (s *scan) measureSingles(columns []int) {
	for _, j := range columns {
		total, _ := s.exact(s.Columns[j].Codes, s.Columns[j].Size)
		s.singles[j] = total
	}
}

// codes numbers the combinations of a pair in the order of the rows, from 1 on. Code 0 are those
// with a rare value.
func (s *scan) codes(x *tried) (codes []int32, size int) {
	a, b := &s.Columns[x.A], &s.Columns[x.B]
	of := make(map[int64]int32, x.Combinations)
	codes = make([]int32, len(a.Codes))
	for i := range codes {
		if a.Codes[i] == 0 || b.Codes[i] == 0 {
			continue
		}
		key := int64(a.Codes[i])*int64(b.Size) + int64(b.Codes[i])
		v, ok := of[key]
		if !ok {
			v = int32(len(of) + 1)
			of[key] = v
		}
		codes[i] = v
	}
	return codes, len(of) + 1
}

// corrections returns the correction of each code for each fold. Code 0 has the correction 0.
func (s *scan) corrections(codes []int32, size int) [][folds]float64 {
	cells := make([]cell, size)
	for i, v := range codes {
		of := &cells[v].at[s.fold[i]]
		of.residual += s.sums[i].residual
		of.information += s.sums[i].information
	}
	d := make([][folds]float64, size)
	for v := 1; v < size; v++ {
		for k := range folds {
			if s.measured(k) {
				d[v][k] = s.correction(&cells[v], k)
			}
		}
	}
	return d
}

// exact returns the total gain in log-loss of corrections, and the sum of its squares.
func (s *scan) exact(codes []int32, size int) (total, squares float64) {
	d := s.corrections(codes, size)
	for i, v := range codes {
		k := int(s.fold[i])
		if !s.measured(k) || d[v][k] == 0 {
			continue
		}
		g := lossAt(s.logit[i], s.Ones[i]) - lossAt(s.logit[i]+d[v][k], s.Ones[i])
		total += g
		squares += float64(g * g)
	}
	return total, squares
}

// best returns the significant pair with the largest gain and drops from all the pairs that are
// not significant. It returns nil if none is.
func (s *scan) best(all *[]tried) *tried {
	var best *tried
	keep := (*all)[:0]
	for _, x := range *all {
		codes, size := s.codes(&x)
		total, squares := s.exact(codes, size)
		x.Gain = total
		if s.judge(&x, squares); x.deviations < s.limit {
			continue
		}
		keep = append(keep, x)
		if best == nil || x.Gain > best.Gain {
			best = &tried{x.Pair, x.deviations}
		}
	}
	*all = slices.DeleteFunc(keep, func(x tried) bool { return best != nil && x.A == best.A && x.B == best.B })
	return best
}

// correct adds the corrections of a pair to the logits.
func (s *scan) correct(x *tried) {
	codes, size := s.codes(x)
	d := s.corrections(codes, size)
	for i, v := range codes {
		s.logit[i] += d[v][s.fold[i]]
		s.update(i)
	}
}

// withoutLeaks removes the pairs that predict the label alone, and lists them.
func (s *scan) withoutLeaks(all []tried, f *Found) []tried {
	return slices.DeleteFunc(all, func(x tried) bool {
		codes, size := s.codes(&x)
		if s.auc(codes, size) <= leaking {
			return false
		}
		f.Leaks = append(f.Leaks, x.Pair)
		return true
	})
}

// auc returns the AUC of the rates of codes in rows of other folds.
func (s *scan) auc(codes []int32, size int) float64 {
	rows, ones := make([][folds]float64, size), make([][folds]float64, size)
	for i, v := range codes {
		rows[v][s.fold[i]]++
		if s.Ones[i] {
			ones[v][s.fold[i]]++
		}
	}
	type scored struct{ rate, zeros, ones float64 }
	var all []scored
	for v := range rows {
		for k := range folds {
			n, one := 2.0, 1.0
			for j := range folds {
				if j != k {
					n, one = n+rows[v][j], one+ones[v][j]
				}
			}
			all = append(all, scored{one / n, rows[v][k] - ones[v][k], ones[v][k]})
		}
	}
	slices.SortFunc(all, func(a, b scored) int { return cmp.Compare(a.rate, b.rate) })
	below, above, area := 0.0, 0.0, 0.0
	for i := 0; i < len(all); {
		tie := scored{rate: all[i].rate}
		for ; i < len(all) && all[i].rate == tie.rate; i++ {
			tie.zeros += all[i].zeros
			tie.ones += all[i].ones
		}
		area += float64(tie.ones * (below + tie.zeros/2))
		below += tie.zeros
		above += tie.ones
	}
	return area / (below * above)
}

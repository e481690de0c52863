package pairs

import (
	"sync"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// Search finds the pairs of a table. The result depends only on the table.
func Search(t *Table) Found {
	n, ones := len(t.Ones), 0
	for _, one := range t.Ones {
		if one {
			ones++
		}
	}
	f := Found{Rows: n}
	if f.Few = min(ones, n-ones) < Fewest; f.Few {
		return f
	}
	s := newScan(t)
	f.Loss = s.loss()
	columns := s.chosen(&f)
	if len(columns) < 2 {
		return f
	}
	s.measureSingles(columns)
	all := s.screen(columns)
	f.Tried = len(columns) * (len(columns) - 1) / 2
	s.limit = threshold(f.Tried)
	all = s.withoutLeaks(all, &f)
	for len(f.Pairs) < most && len(all) > 0 {
		best := s.best(&all)
		if best == nil || best.Gain < least*f.Loss {
			break
		}
		f.Pairs = append(f.Pairs, best.Pair)
		s.correct(best)
		s.measureSingles(columns)
	}
	return f
}

// score sets the logits of fold k by a model of the folds that may fit it. If the rows are
// ordered, the intercept of fold k is used, since rates drift.
func (s *scan) score(k int) {
	var fit, own []int32
	for i, j := range s.fold {
		if int(j) == k {
			own = append(own, int32(i))
		} else if s.fits(int(j), k) {
			fit = append(fit, int32(i))
		}
	}
	if len(fit) == 0 {
		return
	}
	m := newModel(s.Table, fit)
	m.fit()
	for _, i := range own {
		s.logit[i] = m.of(i)
	}
	if s.Ordered {
		recentre(s.logit, s.Ones, own)
	}
}

// newScan scores each row by an additive model of other rows.
func newScan(t *Table) *scan {
	n := len(t.Ones)
	s := &scan{Table: t, fold: make([]uint8, n), logit: make([]float64, n), sums: make([]sum, n), singles: make([]float64, len(t.Columns))}
	for i := range s.fold {
		if t.Ordered {
			s.fold[i] = uint8(i * folds / n)
		} else {
			s.fold[i] = uint8(f32.Mix(uint64(i)+f32.Golden) % folds)
		}
	}
	var all sync.WaitGroup
	for k := range folds {
		all.Go(func() { s.score(k) })
	}
	all.Wait()
	for i := range s.sums {
		s.update(i)
	}
	return s
}

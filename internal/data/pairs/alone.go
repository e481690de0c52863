package pairs

import "math"

// Beyond returns what corrections of single columns gain in log-loss per row, on rows that did not fit
// them, beyond the additive model of a table. The columns may be others than those of the table. A
// gain is 0 if chance explains it. The result is nil if there are too few rows of a class.
func Beyond(t *Table, columns []Column) (gains []float64) {
	ones := 0
	for _, one := range t.Ones {
		if one {
			ones++
		}
	}
	if min(ones, len(t.Ones)-ones) < Fewest {
		return nil
	}
	s := newScan(t)
	limit := threshold(len(columns))
	for _, c := range columns {
		total, squares := s.exact(c.Codes, c.Size)
		if total < float64(limit*math.Sqrt(squares+1e-12)) {
			total = 0
		}
		gains = append(gains, total/s.rows())
	}
	return gains
}

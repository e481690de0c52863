package pairs

import "math"

// model is an additive model: logistic regression on the values of each column, with the
// quadratic penalty prior/2 of each coefficient.
type model struct {
	*Table
	rows      []int32 // that it is fitted to
	intercept float64
	weights   [][]float64 // by column and code
}

func newModel(t *Table, rows []int32) *model {
	m := &model{Table: t, rows: rows, weights: make([][]float64, len(t.Columns))}
	for j := range m.weights {
		m.weights[j] = make([]float64, t.Columns[j].Size)
	}
	ones := 0.0
	for _, i := range rows {
		if t.Ones[i] {
			ones++
		}
	}
	m.intercept = math.Log((ones + 1) / (float64(len(rows)) - ones + 1))
	return m
}

// of returns the logit of a row.
func (m *model) of(row int32) float64 {
	z := m.intercept
	for j := range m.Columns {
		z += m.weights[j][m.Columns[j].Codes[row]]
	}
	return z
}

// fit fits the weights by Newton's method. Each step solves its linear system by passes over the
// columns (Gauss and Seidel).
func (m *model) fit() {
	const steps, passes = 6, 3
	working := make([]float64, len(m.rows)) // residuals of the linear system
	info := make([]float64, len(m.rows))
	for range steps {
		for k, i := range m.rows {
			p := 1 / (1 + math.Exp(-m.of(i)))
			info[k] = max(p*(1-p), 1e-4)
			y := 0.0
			if m.Ones[i] {
				y = 1
			}
			working[k] = (y - p) / info[k]
		}
		for range passes {
			m.shift(working, info)
			for j := range m.Columns {
				m.pass(j, working, info)
			}
		}
	}
}

// shift solves for the intercept.
func (m *model) shift(working, info []float64) {
	r, v := 0.0, 0.0
	for k, w := range info {
		r += float64(w * working[k])
		v += w
	}
	d := r / v
	m.intercept += d
	for k := range working {
		working[k] -= d
	}
}

// pass solves for the weights of a column.
func (m *model) pass(column int, working, info []float64) {
	c, w := &m.Columns[column], m.weights[column]
	sums := make([]sum, c.Size)
	for k, i := range m.rows {
		s := &sums[c.Codes[i]]
		s.residual += float64(info[k] * working[k])
		s.information += info[k]
	}
	for v := range sums {
		d := (sums[v].residual - float64(prior*w[v])) / (sums[v].information + prior)
		w[v] += d
		sums[v].residual = d
	}
	for k, i := range m.rows {
		working[k] -= sums[c.Codes[i]].residual
	}
}

// recentre shifts the logits of some rows so that they predict as many ones as there are.
func recentre(logit []float64, ones []bool, rows []int32) {
	const steps = 4
	for range steps {
		r, v := 0.0, 1.0
		for _, i := range rows {
			p := 1 / (1 + math.Exp(-logit[i]))
			r -= p
			v += float64(p * (1 - p))
			if ones[i] {
				r++
			}
		}
		d := max(-1, min(r/v, 1))
		for _, i := range rows {
			logit[i] += d
		}
	}
}

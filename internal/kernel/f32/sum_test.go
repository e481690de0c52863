package f32

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestSumRowsIsThePlainLoop(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for p := 1; p <= 9; p++ {
		for _, n := range []int{0, 1, 7, 8, 9, 63, 64, 65, 130, 1003} {
			rows, want := make([][]float32, p), make([][]float32, p)
			for k := range rows {
				rows[k] = make([]float32, n+1)[1:] // not aligned
				for i := range rows[k] {
					rows[k][i] = float32(rng.NormFloat64() * math.Exp(8*rng.NormFloat64()))
				}
				want[k] = append([]float32(nil), rows[k]...)
			}
			sumRows(want, want, 0, n)
			one := [][]float32{make([]float32, n)}
			SumRows(one, rows)
			SumRows(rows, rows) // in place
			for k := range rows {
				for i := range rows[k] {
					if rows[k][i] != want[k][i] || one[0][i] != want[0][i] {
						t.Fatalf("%d rows of %d: element %d of row %d is %v and %v, want %v", p, n, i, k, rows[k][i], one[0][i], want[k][i])
					}
				}
			}
		}
	}
}

func TestSumRowsRefusesWrongShapes(t *testing.T) {
	for _, k := range []struct{ dst, rows [][]float32 }{
		{nil, [][]float32{{1}}},
		{[][]float32{{1}}, nil},
		{[][]float32{{1}}, [][]float32{{1}, {1, 2}}},
		{[][]float32{{1}, {}}, [][]float32{{1}}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v of %v did not panic", k.dst, k.rows)
				}
			}()
			SumRows(k.dst, k.rows)
		}()
	}
}

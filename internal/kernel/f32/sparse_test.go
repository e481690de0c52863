package f32

import (
	"math"
	"math/rand/v2"
	"testing"
)

// thin sets a share of values to 0, some of them to −0.
func thin(v []float32, share float64, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 3))
	for i := range v {
		if rng.Float64() < share {
			v[i] = float32(math.Copysign(0, float64(rng.IntN(8)-1)))
		} else if v[i] == 0 {
			v[i] = 1
		}
	}
}

// runSparse is run with products that skip zeros.
func (m *batch) runSparse(r *Scratch, relu bool) (z [3]Zeros) {
	y, dx, dw, db := m.y, m.dx, m.dw, m.db
	m.dw, m.db = append([]float32(nil), dw...), append([]float32(nil), db...)
	m.run(relu)
	m.y, m.dx, m.dw, m.db = y, dx, dw, db
	bias, sums := m.bias, db
	if m.rows%3 == 0 {
		bias, sums = nil, nil
	}
	var gate []float32
	if relu {
		gate = m.x
	}
	var p Packed
	p.Pack(m.w, m.in, m.out)
	z[0] = r.Forward(m.y, m.x, &p, bias, m.rows, relu)
	z[1] = r.GradInput(m.dx, m.dy, &p, m.rows, gate)
	z[2] = r.GradWeight(m.dw, sums, m.x, m.dy, m.rows, m.in, m.out)
	return z
}

func TestSparseProductsMeetTheSpecification(t *testing.T) {
	for _, s := range [][3]int{{16, 64, 64}, {17, 65, 130}, {40, 200, 71}, {100, 97, 64}, {331, 64, 64}, {64, 1, 64}, {33, 128, 129}} {
		for _, share := range []float64{0, .3, .5, .8, 1} {
			var scratch Scratch
			eachBackend(func(string) {
				m := newBatch(uint64(s[0]), s[0], s[1], s[2])
				thin(m.x, share, 1)
				thin(m.dy, share, 2)
				z := m.runSparse(&scratch, s[2]%2 == 0)
				if d := m.differ(); d != "" {
					t.Fatalf("zeros %v: %s", share, d)
				}
				if skips := active != nil && active.nonzeros != nil && share > .5; skips && z[0].Skipped == 0 {
					t.Errorf("%s: %v with zeros %v: nothing skipped", Backend(), s, share)
				}
				if z[0].Skipped > 0 && z[0].Skipped != z[0].Zero*(s[2]/TileColumns*TileColumns) {
					t.Errorf("%s: %v: %+v", Backend(), s, z[0])
				}
			})
		}
	}
}

// A sum of −0 becomes +0 by adding +0: what is skipped would have changed it.
func TestSparseSumsOfMinusZero(t *testing.T) {
	eachBackend(func(string) {
		m := newBatch(1, 40, 150, 128)
		thin(m.x, .6, 1)
		thin(m.dy, .6, 2)
		minus := float32(math.Copysign(0, -1))
		for i := range m.bias {
			m.bias[i] = minus
		}
		for i := range m.dw {
			m.dw[i] = minus
		}
		for r := 3; r < m.rows; r += 7 { // some rows of zeros, and some whose sum underflows to −0
			for i := range m.in {
				m.x[r*m.in+i] = 0
			}
			m.x[r*m.in+r] = 0x1p-140 * float32(r%2)
			clear(m.dy[r*m.out : (r+1)*m.out])
			m.dy[r*m.out+r] = -0x1p-140 * float32(r%2)
		}
		for i := range m.in {
			m.w[i*m.out+i%7] = -0x1p-20
		}
		z := m.runSparse(new(Scratch), true)
		if d := m.differ(); d != "" {
			t.Error(d)
		}
		if z[0].Zero > 0 && (z[0].Skipped == 0 || z[1].Skipped == 0 || z[2].Skipped == 0) {
			t.Errorf("%s skips nothing: %+v", Backend(), z)
		}
	})
}

// A zero times an infinity or a NaN is a NaN: a model that diverges must not look healthy.
func TestSparseProductsPropagateInfinities(t *testing.T) {
	for _, bad := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		eachBackend(func(string) {
			m := newBatch(2, 70, 130, 64)
			thin(m.x, .7, 1)
			thin(m.dy, .7, 2)
			m.w[100*m.out+7], m.dy[33*m.out+9], m.x[44*m.in+10] = float32(bad), float32(bad), float32(bad)
			m.runSparse(new(Scratch), true)
			if d := m.differ(); d != "" {
				t.Errorf("%v: %s", bad, d)
			}
		})
	}
}

package f32

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// batch is one layer's matrices, filled at random.
type batch struct {
	rows, in, out                 int
	x, w, bias, y, dy, dx, dw, db []float32
	wantY, wantDx, wantDw, wantDb []float32
}

func newBatch(seed uint64, rows, in, out int) *batch {
	rng := rand.New(rand.NewPCG(seed, 7))
	fill := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			if v[i] = float32(rng.NormFloat64()); rng.IntN(4) == 0 {
				v[i] = 0 // what ReLU and one-hot inputs are full of
			}
		}
		return v
	}
	return &batch{
		rows: rows, in: in, out: out,
		x: fill(rows * in), w: fill(in * out), bias: fill(out), y: fill(rows * out),
		dy: fill(rows * out), dx: fill(rows * in), dw: fill(in * out), db: fill(out),
	}
}

// run computes the three products by the package and by the specification.
func (m *batch) run(relu bool) {
	var bias, gate, db, wantDb []float32
	if m.wantDb = slices.Clone(m.db); m.rows%3 > 0 {
		bias, db, wantDb = m.bias, m.db, m.wantDb
	}
	if relu {
		gate = m.x
	}
	m.wantY, m.wantDx, m.wantDw = make([]float32, len(m.y)), make([]float32, len(m.dx)), slices.Clone(m.dw)
	specForward(m.wantY, m.x, m.w, bias, m.rows, m.in, m.out, relu)
	specGradInput(m.wantDx, m.dy, m.w, m.rows, m.in, m.out, gate)
	specGradWeight(m.wantDw, wantDb, m.x, m.dy, m.rows, m.in, m.out)
	var p Packed
	p.Pack(m.w, m.in, m.out)
	Forward(m.y, m.x, &p, bias, m.rows, relu)
	GradInput(m.dx, m.dy, &p, m.rows, gate)
	var scratch Scratch
	scratch.GradWeight(m.dw, db, m.x, m.dy, m.rows, m.in, m.out)
}

// differ describes the first difference of bits of the two results, "" if none.
func (m *batch) differ() string {
	for _, c := range []struct {
		name      string
		got, want []float32
	}{{"y", m.y, m.wantY}, {"dx", m.dx, m.wantDx}, {"dw", m.dw, m.wantDw}, {"db", m.db, m.wantDb}} {
		for i, v := range c.got {
			if math.Float32bits(v) != math.Float32bits(c.want[i]) && (v == v || c.want[i] == c.want[i]) { // any NaN will do
				return fmt.Sprintf("%s: %d×%d×%d: %s[%d] is %v, the specification %v", Backend(), m.rows, m.in, m.out, c.name, i, v, c.want[i])
			}
		}
	}
	return ""
}

// eachBackend runs f once for every backend of this CPU and for the portable
// code.
func eachBackend(f func(name string)) {
	defer func(b *backend) { active = b }(active)
	for _, b := range append(backends(), nil) {
		active = b
		f(Backend())
	}
}

// The sizes are those at which blocks, vectors and panels begin and end.
func TestProductsMeetTheirSpecification(t *testing.T) {
	sizes := []int{0, 1, 5, 7, 8, 15, 17, 33, 45, 70}
	for _, rows := range sizes {
		for _, in := range sizes {
			for _, out := range sizes {
				eachBackend(func(string) {
					m := newBatch(uint64(rows<<16|in<<8|out), rows, in, out)
					m.run(out%2 == 0)
					if d := m.differ(); d != "" {
						t.Fatal(d)
					}
				})
			}
		}
	}
}

// Chunks of rows begin and end, too.
func TestProductsOfManyRows(t *testing.T) {
	for _, rows := range []int{251, 253, 300, 330, 600} {
		eachBackend(func(string) {
			m := newBatch(9, rows, 20, 37)
			m.run(true)
			if d := m.differ(); d != "" {
				t.Fatal(d)
			}
		})
	}
}

func FuzzProducts(f *testing.F) {
	f.Add(uint64(1), uint8(5), uint8(17), uint8(33), true)
	f.Add(uint64(2), uint8(200), uint8(255), uint8(1), false)
	f.Fuzz(func(t *testing.T, seed uint64, rows, in, out uint8, relu bool) {
		eachBackend(func(string) {
			m := newBatch(seed, int(rows), int(in), int(out))
			m.run(relu)
			if d := m.differ(); d != "" {
				t.Fatal(d)
			}
		})
	})
}

// TestProductsAgreeWithGonum checks the specification itself, in float64.
func TestProductsAgreeWithGonum(t *testing.T) {
	const rows, in, out = 37, 29, 41
	m := newBatch(3, rows, in, out)
	clear(m.dw)
	m.run(false)
	dense := func(r, c int, v []float32) *mat.Dense {
		d := mat.NewDense(r, c, nil)
		for i, x := range v {
			d.Set(i/c, i%c, float64(x))
		}
		return d
	}
	x, w, dy := dense(rows, in, m.x), dense(in, out, m.w), dense(rows, out, m.dy)
	var y, dx, dw mat.Dense
	y.Mul(x, w)
	y.Apply(func(_, j int, v float64) float64 { return v + float64(m.bias[j]) }, &y)
	dx.Mul(dy, w.T())
	dw.Mul(x.T(), dy)
	for _, c := range []struct {
		name      string
		got, want *mat.Dense
	}{{"y", dense(rows, out, m.y), &y}, {"dx", dense(rows, in, m.dx), &dx}, {"dw", dense(in, out, m.dw), &dw}} {
		if !mat.EqualApprox(c.got, c.want, 1e-4) {
			t.Errorf("%s differs from gonum's", c.name)
		}
	}
}

func TestRowsDoNotDependOnTheirBatch(t *testing.T) {
	eachBackend(func(name string) {
		for _, out := range []int{1, 8, 64, 200} {
			m := newBatch(11, 131, 70, out)
			m.run(true)
			var p Packed
			p.Pack(m.w, m.in, out)
			y, dx := make([]float32, out), make([]float32, m.in)
			for _, r := range []int{0, 1, 63, 64, 129, 130} {
				x := m.x[r*m.in : (r+1)*m.in]
				Forward(y, x, &p, m.bias, 1, true)
				GradInput(dx, m.dy[r*out:(r+1)*out], &p, 1, x)
				if !same(y, m.y[r*out:(r+1)*out]) || !same(dx, m.dx[r*m.in:(r+1)*m.in]) {
					t.Fatalf("%s: %d outputs: row %d alone differs from row %d in the batch", name, out, r, r)
				}
			}
		}
	})
}

// TestGradWeightOfPartsOfABatch splits a batch as ranks, threads and chunks do
// one after the other: the sum continues where it stopped.
func TestGradWeightOfPartsOfABatch(t *testing.T) {
	eachBackend(func(name string) {
		whole, parts := newBatch(12, 131, 70, 50), newBatch(12, 131, 70, 50)
		var scratch Scratch
		scratch.GradWeight(whole.dw, whole.db, whole.x, whole.dy, 131, 70, 50)
		for r, end := range []int{1, 7, 64, 131} {
			begin := []int{0, 1, 7, 64}[r]
			scratch.GradWeight(parts.dw, parts.db, parts.x[begin*70:end*70], parts.dy[begin*50:end*50], end-begin, 70, 50)
		}
		if !same(whole.db, parts.db) || !same(whole.dw, parts.dw) {
			t.Errorf("%s: the gradients of a batch differ from the sum over its parts", name)
		}
	})
}

// TestPackedOuterProducts compares those whose factors are packed with those that read them
// where they are.
func TestPackedOuterProducts(t *testing.T) {
	for _, s := range [][3]int{{1, 84, 192}, {9, 85, 201}, {330, 170, 192}, {40, 341, 530}, {20, 175, 512}} {
		eachBackend(func(name string) {
			if active == nil {
				return
			}
			m := newBatch(3, s[0], s[1], s[2])
			want := slices.Clone(m.dw)
			plain, packing := *active, *active
			plain.packsFrom, packing.packsFrom = 0, 192
			packing.addOuter(new(Scratch), m.dw, m.x, m.dy, s[0], s[1], 0, s[2])
			plain.addOuter(new(Scratch), want, m.x, m.dy, s[0], s[1], 0, s[2])
			if !same(m.dw, want) {
				t.Errorf("%s: %v: packed factors give another sum", name, s)
			}
		})
	}
}

// same compares bits.
func same(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

func TestPackTakesNewValues(t *testing.T) {
	m := newBatch(5, 3, 20, 18)
	var p Packed
	for range 3 {
		p.Pack(m.w, m.in, m.out)
		GradInput(m.dx, m.dy, &p, m.rows, nil)
		want := make([]float32, len(m.dx))
		specGradInput(want, m.dy, m.w, m.rows, m.in, m.out, nil)
		for i, v := range want {
			if math.Abs(float64(v-m.dx[i])) > 1e-4 {
				t.Fatalf("dx[%d] is %v, want %v: weights of an earlier step", i, m.dx[i], v)
			}
		}
		Scale(m.w, -2)
	}
}

func TestReLU(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	negative := math.Float32frombits(0xffc00000) // the NaN that Inf − Inf makes
	x := []float32{-1, 2, nan, inf, -inf, 0, negative}
	var p Packed
	p.Pack([]float32{1}, 1, 1)
	y := make([]float32, len(x))
	Forward(y, x, &p, nil, len(x), true)
	if y[0] != 0 || y[1] != 2 || y[2] == y[2] || y[3] != inf || y[4] != 0 || y[5] != 0 || y[6] == y[6] {
		t.Errorf("ReLU of %v is %v", x, y)
	}
	dy := []float32{1, 1, 1, 1, 1, 1}
	ReLUGrad(dy, []float32{0, 2, nan, inf, float32(math.Copysign(0, -1)), 1e-45})
	for i, want := range []float32{0, 1, 1, 1, 0, 1} {
		if dy[i] != want {
			t.Errorf("gradient %d through ReLU is %v, want %v", i, dy[i], want)
		}
	}
}

func TestVectors(t *testing.T) {
	for n := range 40 {
		m := newBatch(uint64(n), 1, n, n)
		x, y := m.x, m.y
		var squares float64
		sum := append([]float32(nil), y...)
		for i, v := range x {
			squares += float64(v) * float64(v)
			sum[i] = (y[i] + 3*v + v) * 0.5
		}
		if s := SumSquares(x); math.Abs(s-squares) > 1e-9 {
			t.Errorf("n=%d: SumSquares %v, want %v", n, s, squares)
		}
		Axpy(y, 3, x)
		AddTo(y, x)
		Scale(y, 0.5)
		for i, v := range sum {
			if math.Abs(float64(y[i]-v)) > 1e-5 {
				t.Errorf("n=%d: element %d is %v, want %v", n, i, y[i], v)
			}
		}
	}
	if s := SumSquares([]float32{math.MaxFloat32, math.MaxFloat32}); math.IsInf(s, 0) {
		t.Error("SumSquares overflows")
	}
}

func TestFirstNonFinite(t *testing.T) {
	finite := []float32{0, -1, math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32}
	eachBackend(func(name string) {
		for n := 1; n < 40; n++ {
			x := make([]float32, n)
			for i := range x {
				x[i] = finite[i%len(finite)]
			}
			if i := FirstNonFinite(x); i != -1 {
				t.Errorf("%s: index %d of %d finite values", name, i, n)
			}
			for _, bad := range []float64{math.NaN(), -math.NaN(), math.Inf(1), math.Inf(-1)} {
				for at := range x {
					y := append([]float32(nil), x...)
					y[at] = float32(bad)
					if i := FirstNonFinite(y); i != at {
						t.Errorf("%s: %v at %d of %d found at %d", name, bad, at, n, i)
					}
				}
			}
		}
	})
}

func TestWrongShapesPanic(t *testing.T) {
	var p Packed
	p.Pack(make([]float32, 6), 2, 3)
	v := func(n int) []float32 { return make([]float32, n) }
	for name, f := range map[string]func(){
		"Pack":        func() { new(Packed).Pack(v(5), 2, 3) },
		"Forward":     func() { Forward(v(3), v(3), &p, nil, 1, false) },
		"GradInput":   func() { GradInput(v(2), v(4), &p, 1, nil) },
		"GradWeight":  func() { new(Scratch).GradWeight(v(6), v(2), v(2), v(3), 1, 2, 3) },
		"ReLUGrad":    func() { ReLUGrad(v(1), v(2)) },
		"Axpy":        func() { Axpy(v(1), 1, v(2)) },
		"AddTo":       func() { AddTo(v(1), v(2)) },
		"SigmoidLoss": func() { SigmoidLoss(v(1), v(2), v(2)) },
		"Sigmoid":     func() { Sigmoid(v(1), v(2)) },
	} {
		func() {
			defer func() {
				if msg := fmt.Sprint(recover()); !strings.HasPrefix(msg, "f32: "+name) {
					t.Errorf("%s of a wrong shape: %s", name, msg)
				}
			}()
			f()
		}()
	}
}

func TestProductsAllocateNothing(t *testing.T) {
	m := newBatch(1, 300, 120, 130)
	var p Packed
	var scratch Scratch
	step := func() {
		p.Pack(m.w, m.in, m.out)
		Forward(m.y, m.x, &p, m.bias, m.rows, true)
		ReLUGrad(m.dy, m.y)
		GradInput(m.dx, m.dy, &p, m.rows, nil)
		scratch.GradWeight(m.dw, m.db, m.x, m.dy, m.rows, m.in, m.out)
		SigmoidLoss(m.dx, m.x, m.x)
	}
	step()
	if n := testing.AllocsPerRun(5, step); n != 0 {
		t.Errorf("%v allocations a step", n)
	}
}

// TestFusedRoundsOnce compares with exact arithmetic, most of all where rounding to
// float64 first would round twice.
func TestFusedRoundsOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	exact := func(a, b, c float32) float32 {
		of := func(x float32) *big.Float { return new(big.Float).SetPrec(1000).SetFloat64(float64(x)) }
		v, _ := new(big.Float).Add(new(big.Float).Mul(of(a), of(b)), of(c)).Float32()
		return v
	}
	twice := 0
	for range 300_000 {
		// Factors of few bits make ties; a far addend, which then decides, of either sign.
		a := float32(math.Ldexp(float64(rng.IntN(1<<13)+1), rng.IntN(12)-6))
		b := float32(math.Ldexp(float64(rng.IntN(1<<12)+1), rng.IntN(12)-6))
		c := float32(math.Ldexp(rng.NormFloat64(), -rng.IntN(90)+20))
		if rng.IntN(4) == 0 { // subnormal results
			a, b, c = a*0x1p-70, b*0x1p-72, c*0x1p-130
		}
		want := exact(a, b, c)
		if got := fused(a, b, c); got != want {
			t.Fatalf("%v·%v + %v is %v, want %v", a, b, c, got, want)
		}
		if float32(float64(a)*float64(b)+float64(c)) != want {
			twice++
		}
		row := []float32{c}
		if fuseRow(row, a, []float32{b}); row[0] != want {
			t.Fatalf("in a row, %v·%v + %v is %v, want %v", a, b, c, row[0], want)
		}
	}
	if twice < 100 {
		t.Errorf("only %d values that rounding twice gets wrong: the test is too easy", twice)
	}
}

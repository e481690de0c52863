package dense

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
)

// distinctTest is an MLP and a batch whose embeddings have n distinct rows.
type distinctTest struct {
	t         *testing.T
	spec      Spec
	rows, n   int
	cols      []int
	dims      []int
	workers   int
	arenas    []*Arena // all except the first are images
	mlps      []*MLP
	in, dy    []float32
	columns   []Columns
	chunkRows int
}

func (x *distinctTest) make() {
	rng := rand.New(rand.NewPCG(1, 2))
	fill := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	x.chunkRows = 256
	if x.spec.BatchNorm {
		x.chunkRows = x.rows
	}
	for i := range x.workers {
		arena := new(Arena)
		mlp, err := NewMLP(arena, "deep", x.spec)
		if err == nil && i == 0 {
			err = arena.Build(Config{Seed: 3})
		} else if err == nil {
			arena.Attach(x.arenas[0])
		}
		if err != nil {
			x.t.Fatal(err)
		}
		x.arenas, x.mlps = append(x.arenas, arena), append(x.mlps, mlp)
	}
	x.in, x.dy = fill(x.rows*x.spec.In), fill(x.rows*x.spec.Out)
	for i, col := range x.cols {
		q := Columns{Col: col, Dim: x.dims[i], Rows: fill(x.n * x.dims[i]), Grad: fill(x.n * x.dims[i])}
		sight := map[uint32]uint32{} // half of the columns number their rows in order of occurrence
		for r := range x.rows {
			number := uint32(rng.IntN(x.n))
			if _, ok := sight[number]; !ok {
				sight[number] = uint32(len(sight))
			}
			if i%2 == 0 {
				number = sight[number]
			}
			q.Of = append(q.Of, number)
			copy(x.in[r*x.spec.In+col:][:q.Dim], q.Rows[int(q.Of[r])*q.Dim:])
		}
		x.columns = append(x.columns, q)
	}
}

// pass computes rows lo to hi of the batch with an MLP in chunks. It returns the outputs and the
// gradients of the input, if backward returns them.
func (x *distinctTest) pass(m *MLP, lo, hi int, forward func(lo, hi int) ([]float32, error), backward func(dy []float32, lo, hi int) ([]float32, error)) (y, dx []float32) {
	for end := hi; lo < end; lo = hi {
		hi = min(lo+x.chunkRows, end)
		m.SetStep(1, make([]uint64, hi-lo))
		part, err := forward(lo, hi)
		if err != nil {
			x.t.Fatal(err)
		}
		y = append(y, part...)
		dy := append([]float32(nil), x.dy[lo*x.spec.Out:hi*x.spec.Out]...)
		if part, err = backward(dy, lo, hi); err != nil {
			x.t.Fatal(err)
		}
		dx = append(dx, part...)
	}
	return y, dx
}

// through computes the batch with p, one worker after another, and sums the gradients in the
// first arena. fill sets the other columns. end is called before End.
func (x *distinctTest) through(p *Distinct, fill func(rest []float32), end func()) (y []float32) {
	for _, a := range x.arenas {
		a.ZeroGrad()
	}
	fill(p.Begin(x.rows, x.columns))
	for i, h := range p.Workers {
		h.Start(share(x.rows, x.workers, i))
	}
	for _, h := range p.Workers {
		h.Sum()
	}
	for i, h := range p.Workers {
		lo, hi := share(x.rows, x.workers, i)
		part, _ := x.pass(x.mlps[i], lo, hi,
			func(lo, hi int) ([]float32, error) { return h.Forward(lo, hi, true) },
			func(dy []float32, lo, hi int) ([]float32, error) { return nil, h.Backward(dy, lo, hi) })
		y = append(y, part...)
	}
	end()
	for _, h := range p.Workers {
		h.End()
	}
	from, to := p.Own()
	for _, a := range x.arenas[1:] {
		for i, g := range a.Grads() {
			if own := i >= from && i < to; own && g != 0 {
				x.t.Fatal("a worker's own arena has gradients of the first layer's weights")
			}
			x.arenas[0].Grads()[i] += g
		}
	}
	return y
}

func (x *distinctTest) compare() {
	t, m, in := x.t, x.mlps[0], x.spec.In
	x.arenas[0].ZeroGrad()
	wantY, wantDx := x.pass(m, 0, x.rows,
		func(lo, hi int) ([]float32, error) { return m.Forward(x.in[lo*in:hi*in], hi-lo, true) },
		func(dy []float32, lo, hi int) ([]float32, error) { return m.Backward(dy, hi-lo) })
	want := append([]float32(nil), x.arenas[0].Grads()...)

	p, input := NewDistinct(x.mlps...), []float32(nil)
	y := x.through(p, func(rest []float32) {
		r := len(rest) / x.rows
		for i := range x.rows {
			for k, c := range p.rest {
				rest[i*r+k] = x.in[i*in+c]
			}
		}
		input = slices.Clone(rest)
	}, func() {})
	dx := p.Rest()
	r := len(dx) / x.rows
	near := near
	if x.spec.BF16 {
		near = nearHalf
	}
	near(t, "output", y, wantY)
	near(t, "gradient of a parameter", x.arenas[0].Grads(), want)
	var wantRest []float32
	for i := range x.rows {
		for _, c := range p.rest {
			wantRest = append(wantRest, wantDx[i*in+c])
		}
	}
	near(t, "gradient of a column that belongs to none", dx[:r*x.rows], wantRest)
	for _, q := range x.columns {
		sum := make([]float32, len(q.Rows))
		for i, of := range q.Of {
			f32.AddTo(sum[int(of)*q.Dim:][:q.Dim], wantDx[i*in+q.Col:][:q.Dim])
		}
		near(t, "gradient of a distinct row", q.Grad, sum)
	}
	if x.workers == 1 {
		x.stop(p, input)
	}
}

// stop computes the same batch with p, with stops before all embeddings except the first and one
// within the other columns. The bits and the gradients reported final must not change.
func (x *distinctTest) stop(p *Distinct, input []float32) {
	t := x.t
	grads, rows := slices.Clone(x.arenas[0].Grads()), [][]float32(nil)
	for _, q := range x.columns {
		rows = append(rows, slices.Clone(q.Grad))
	}
	for _, col := range append(x.cols[1:len(x.cols):len(x.cols)], x.spec.In-1) {
		if last := len(x.cols) - 1; col >= x.cols[last]+x.dims[last] || col < x.spec.In-1 {
			p.Stops = append(p.Stops, col)
		}
	}
	var watch *watchedFinal
	x.through(p, func(rest []float32) { copy(rest, input) }, func() { watch = watchFinal(x.arenas[0]) })
	x.arenas[0].Final(nil)
	watch.check(t, "columns", len(p.Stops)+1)
	if !slices.Equal(grads, x.arenas[0].Grads()) {
		t.Error("stops have changed gradients of parameters")
	}
	for i, q := range x.columns {
		if !slices.Equal(rows[i], q.Grad) {
			t.Errorf("stops have changed gradients of the rows of embedding %d", i)
		}
	}
}

// TestDistinctComputesTheSame: a batch computed by distinct rows and in chunks has the outputs
// and gradients of the layers up to rounding, for any number of workers.
func TestDistinctComputesTheSame(t *testing.T) {
	sameDistinct(t, []distinctTest{
		{spec: Spec{In: 23, Hidden: []int{100, 9}, Out: 1}, rows: 50, n: 7, cols: []int{0, 12}, dims: []int{10, 5}},
		{spec: Spec{In: 30, Hidden: []int{64, 64}, Out: 1}, rows: 300, n: 40, cols: []int{0, 10, 20}, dims: []int{10, 10, 10}},
		{spec: Spec{In: 17, Hidden: []int{130}, Out: 2, Activation: "tanh"}, rows: 1000, n: 900, cols: []int{0, 8}, dims: []int{8, 8}}, // two groups
		{spec: Spec{In: 16, Hidden: []int{40, 8}, Out: 1, Dropout: .2}, rows: 20, n: 3, cols: []int{8}, dims: []int{8}},
		{spec: Spec{In: 16, Hidden: []int{40, 8}, Out: 1, BatchNorm: true}, rows: 20, n: 3, cols: []int{0}, dims: []int{16}},
	})
}

// TestDistinctComputesTheSameInBF16 is the same in bfloat16, up to its rounding.
func TestDistinctComputesTheSameInBF16(t *testing.T) {
	if !f32.TilesBF16() {
		t.Skip("this machine has no bfloat16 kernels for tiles")
	}
	sameDistinct(t, []distinctTest{
		{spec: Spec{In: 23, Hidden: []int{100, 9}, Out: 1, BF16: true}, rows: 50, n: 7, cols: []int{0, 12}, dims: []int{10, 5}},
		{spec: Spec{In: 30, Hidden: []int{64, 64}, Out: 1, BF16: true}, rows: 300, n: 40, cols: []int{0, 10, 20}, dims: []int{10, 10, 10}},
		{spec: Spec{In: 53, Hidden: []int{130}, Out: 2, BF16: true}, rows: 1000, n: 900, cols: []int{0, 18}, dims: []int{17, 32}}, // two groups
	})
}

func sameDistinct(t *testing.T, all []distinctTest) {
	for _, x := range all {
		for _, workers := range []int{1, 2, 3, 7} {
			if x.spec.BatchNorm && workers > 1 {
				continue // batch normalisation needs the whole batch
			}
			x := x
			x.t, x.workers = t, workers
			x.make()
			x.compare()
		}
	}
}

// near fails the test unless a equals b up to the rounding of some hundred sums.
func near(t *testing.T, what string, a, b []float32) {
	t.Helper()
	for i := range a {
		if d := math.Abs(float64(a[i] - b[i])); d > 1e-4*(1+math.Abs(float64(b[i]))) {
			t.Fatalf("%s: %d is %v, want %v", what, i, a[i], b[i])
		}
	}
}

// nearHalf fails the test unless a equals b up to the rounding of bfloat16.
func nearHalf(t *testing.T, what string, a, b []float32) {
	t.Helper()
	if len(a) != len(b) {
		t.Fatalf("%s: %d values, want %d", what, len(a), len(b))
	}
	if d := distance(a, b); len(b) > 0 && !(d < .02) {
		t.Errorf("%s is off by %.4f of its norm", what, d)
	}
}

// TestDistinctNameTheirRows: the number of a row that does not exist panics.
func TestDistinctNameTheirRows(t *testing.T) {
	m, err := NewMLP(new(Arena), "deep", Spec{In: 2, Hidden: []int{4}, Out: 1})
	if err != nil {
		t.Skip(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("row 1 of 1 was accepted")
		}
	}()
	p := NewDistinct(m)
	p.Begin(1, []Columns{{Dim: 2, Rows: make([]float32, 2), Of: []uint32{1}}})
	p.Workers[0].Start(0, 1)
}

// TestOnlyRepetitionPays: distinct rows are used only if there are few of them.
func TestOnlyRepetitionPays(t *testing.T) {
	p := new(Distinct)
	for _, x := range []struct {
		n, rows, dim int
		want         bool
	}{{10, 1024, 10, true}, {500, 1024, 10, true}, {800, 1024, 10, false}, {10, 1024, 1, false}, {0, 0, 10, false}, {6, 6, 4, false}} {
		if got := p.Pays(x.n, x.rows, x.dim); got != x.want {
			t.Errorf("Pays(%d, %d, %d) is %t", x.n, x.rows, x.dim, got)
		}
	}
}

package f32

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// bf16Layer is one layer's matrices in bfloat16 and what the products make.
type bf16Layer struct {
	rows, in, out int
	m             *batch
	x, dy, gate   []BF16

	y, dx   []BF16
	yf, dxf []float32
	dw, db  []float32
	packed  PackedBF16
	work    WorkBF16
}

// newBF16Layer fills the memory after the matrices with arbitrary values. The products must
// not read them, nor write past their columns.
func newBF16Layer(seed uint64, rows, in, out int) *bf16Layer {
	l := &bf16Layer{rows: rows, in: in, out: out, m: newBatch(seed, rows, in, out)}
	rubbish := func(n int) []BF16 { return slices.Repeat([]BF16{0x7fc0}, n) }
	l.x, l.dy = rubbish(LenBF16(rows, in)), rubbish(LenBF16(rows, out))
	l.y, l.dx = rubbish(LenBF16(rows, out)), rubbish(LenBF16(rows, in))
	ConvertBF16(l.x, l.m.x, rows, in)
	ConvertBF16(l.dy, l.m.dy, rows, out)
	l.yf, l.dxf = make([]float32, rows*out), make([]float32, rows*in)
	return l
}

// step runs the three products, those that have two kinds of result in both.
func (l *bf16Layer) step(relu bool) {
	l.dw, l.db, l.gate = l.m.dw, l.m.db, nil
	if relu {
		l.gate = l.x
	}
	l.packed.Pack(l.m.w, l.in, l.out)
	l.products(relu)
}

func (l *bf16Layer) products(relu bool) {
	l.work.Forward(l.y, l.x, &l.packed, l.m.bias, l.rows, relu)
	l.work.ForwardF32(l.yf, l.x, &l.packed, l.m.bias, l.rows)
	l.work.GradInput(l.dx, l.dy, &l.packed, l.rows, l.gate)
	l.work.GradInputF32(l.dxf, l.dy, &l.packed, l.rows)
	l.work.GradWeight(l.dw, l.db, l.x, l.dy, l.rows, l.in, l.out)
}

// blocks returns the full blocks of a matrix, without the memory between its rows.
func blocks(m []BF16, rows, cols int) (all []BF16) {
	for r := range padTile(rows) {
		all = append(all, m[r*StrideBF16(cols):][:padTile(cols)]...)
	}
	return all
}

// TestBF16LayerIsNearTheFloat32One on matrices rounded to bfloat16 beforehand,
// so that only the order of additions differs.
func TestBF16LayerIsNearTheFloat32One(t *testing.T) {
	for _, s := range [][3]int{{1, 1, 1}, {3, 33, 7}, {40, 70, 65}, {300, 31, 20}, {65, 70, 1}} {
		l := newBF16Layer(1, s[0], s[1], s[2])
		for _, v := range [][]float32{l.m.x, l.m.w, l.m.dy} {
			half := make([]BF16, len(v))
			ToBF16(half, v)
			FromBF16(v, half)
		}
		for _, c := range []struct {
			plain unitBF16
			relu  bool
		}{{noUnit, true}, {noUnit, false}, {tiles, true}, {vectors, false}} {
			plainBF16 = c.plain
			defer func() { plainBF16 = noUnit }()
			m := l.m
			wantY, wantDx := make([]float32, len(m.y)), make([]float32, len(m.dx))
			wantDw, wantDb := slices.Clone(m.dw), slices.Clone(m.db)
			specForward(wantY, m.x, m.w, m.bias, m.rows, m.in, m.out, false)
			specGradInput(wantDx, m.dy, m.w, m.rows, m.in, m.out, nil)
			specGradWeight(wantDw, wantDb, m.x, m.dy, m.rows, m.in, m.out)
			l.step(c.relu)
			for _, c := range []struct {
				name      string
				got, want []float32
				terms     int
			}{{"y", l.yf, wantY, m.in}, {"dx", l.dxf, wantDx, m.out}, {"dw", l.dw, wantDw, m.rows}, {"db", l.db, wantDb, m.rows}} {
				for i, v := range c.got {
					if d := math.Abs(float64(v - c.want[i])); !(d <= 2e-6*float64(c.terms+1)) {
						t.Fatalf("%v: %s[%d] is %v, in float32 %v", s, c.name, i, v, c.want[i])
					}
				}
			}
			l.checkHalves(t, c.relu)
		}
	}
}

// checkHalves compares the bfloat16 results with the float32 ones through ReLU and
// gate, and looks for zeros behind them. A single output is summed in another order
// there, so that it may be the next number.
func (l *bf16Layer) checkHalves(t *testing.T, relu bool) {
	t.Helper()
	y, dx := slices.Clone(l.yf), slices.Clone(l.dxf)
	if relu {
		for i, v := range y {
			y[i] = max(v, 0)
		}
		ReLUGrad(dx, l.m.x)
	}
	for _, c := range []struct {
		name string
		half []BF16
		full []float32
		cols int
	}{{"y", l.y, y, l.out}, {"dx", l.dx, dx, l.in}} {
		want := make([]BF16, LenBF16(l.rows, c.cols))
		ConvertBF16(want, c.full, l.rows, c.cols)
		half := blocks(c.half, l.rows, c.cols)
		for i, v := range blocks(want, l.rows, c.cols) {
			got := half[i]
			near := l.out == 1 && v != 0 && (got == v+1 || got == v-1)
			if widenBF16(got) != widenBF16(v) && !near {
				t.Fatalf("%d×%d×%d: %s in blocks holds %v at %d, rounded from float32 %v", l.rows, l.in, l.out, c.name, widenBF16(got), i, widenBF16(v))
			}
		}
	}
}

func TestBF16KernelsGiveTheBitsOfThePlainLoops(t *testing.T) {
	if err := NoBF16(); err != nil {
		t.Skip(err)
	}
	sizes := []int{0, 1, 31, 32, 33, 65}
	for _, rows := range append(sizes, 257) {
		for _, in := range sizes {
			for _, out := range sizes {
				if rows > 100 && in+out > 70 {
					continue
				}
				if d := bf16Differs(uint64(rows<<16|in<<8|out), rows, in, out); d != "" {
					t.Fatal(d)
				}
			}
		}
	}
}

// bf16Differs runs a step with assembly and without and describes the difference.
func bf16Differs(seed uint64, rows, in, out int) string {
	fast, plain := newBF16Layer(seed, rows, in, out), newBF16Layer(seed, rows, in, out)
	fast.step(out%2 == 0)
	plainBF16 = orderBF16()
	plain.step(out%2 == 0)
	plainBF16 = noUnit
	for _, c := range []struct {
		name      string
		got, want []float32
	}{
		{"ForwardF32", fast.yf, plain.yf}, {"GradInputF32", fast.dxf, plain.dxf},
		{"GradWeight", fast.dw, plain.dw}, {"GradWeight of the bias", fast.db, plain.db},
	} {
		if !same(c.got, c.want) {
			return fmt.Sprintf("%d×%d×%d: %s by kernels differs from the plain loop", rows, in, out, c.name)
		}
	}
	if !slices.Equal(blocks(fast.y, rows, out), blocks(plain.y, rows, out)) {
		return fmt.Sprintf("%d×%d×%d: Forward by kernels differs from the plain loop", rows, in, out)
	}
	if !slices.Equal(blocks(fast.dx, rows, in), blocks(plain.dx, rows, in)) {
		return fmt.Sprintf("%d×%d×%d: GradInput by kernels differs from the plain loop", rows, in, out)
	}
	return ""
}

// TestBF16Rounding checks that the vector kernel rounds every kind of number like the plain
// loop.
func TestBF16Rounding(t *testing.T) {
	if err := NoBF16(); err != nil {
		t.Skip(err)
	}
	special := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 1.00390625, 1.01171875, 1e-40, -1e-40, 1.1754944e-38, 3.4e38, -3.4e38,
		float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), math.Float32frombits(0xff800001), math.Float32frombits(0x7f7fffff)}
	for _, cols := range []int{1, 15, 16, 17, 31, 32, 33, 70} {
		src := make([]float32, 3*cols)
		for i := range src {
			src[i] = special[i%len(special)]
		}
		fast, plain := make([]BF16, LenBF16(3, cols)), make([]BF16, LenBF16(3, cols))
		ConvertBF16(fast, src, 3, cols)
		plainBF16 = orderBF16()
		ConvertBF16(plain, src, 3, cols)
		plainBF16 = noUnit
		if !slices.Equal(fast, plain) {
			t.Errorf("%d columns: %x, by the plain loop %x", cols, fast, plain)
		}
	}
}

// TestVectorsMultiplyEveryKindOfNumber: infinities, NaN, what is subnormal or becomes
// it on the way, and products that are no float32.
func TestVectorsMultiplyEveryKindOfNumber(t *testing.T) {
	if unit, _ := machineBF16(); unit != vectors {
		t.Skip("this machine does not multiply in bfloat16 by AVX512_BF16")
	}
	rng := rand.New(rand.NewPCG(8, 1))
	for _, span := range []struct{ lowest, exponents int }{{0, 256}, {0, 3}, {90, 75}, {60, 8}, {120, 12}, {185, 10}} {
		bits := func() uint32 {
			return uint32(rng.IntN(2))<<31 | uint32(span.lowest+rng.IntN(span.exponents))<<23 | rng.Uint32()>>9
		}
		for range 40 {
			var b pairs
			var work WorkBF16
			b.resize(tile, tile)
			a, init := make([]BF16, LenBF16(tile, tile)), make([]float32, tile*tile)
			for i := range a {
				a[i] = BF16(bits() >> 16)
			}
			for i := range b.data {
				b.data[i] = bits()&^0xffff | bits()>>16
			}
			for i := range init {
				init[i] = math.Float32frombits(bits())
				if span.lowest == 60 {
					init[i] = float32(math.Ldexp(float64(init[i]), -60)) // of the size of the products
				}
			}
			got, want := make([]float32, tile*tile), make([]float32, tile*tile)
			work.toFloat(got, tile, a, &b, 0, init, tile, 1)
			toFloatPlain(want, tile, a, &b, 0, init, tile, 1)
			for i, v := range got {
				if w := want[i]; math.Float32bits(v) != math.Float32bits(w) && !(v != v && w != w) {
					t.Fatalf("exponents from %d: %v, by the plain loop %v", span.lowest, v, w)
				}
			}
		}
	}
}

func FuzzBF16(f *testing.F) {
	f.Add(uint64(1), uint8(5), uint8(40), uint8(33))
	f.Fuzz(func(t *testing.T, seed uint64, rows, in, out uint8) {
		if NoBF16() != nil {
			t.Skip(NoBF16())
		}
		if d := bf16Differs(seed, int(rows), int(in), int(out)); d != "" {
			t.Fatal(d)
		}
	})
}

func TestBF16RowsDoNotDependOnTheirBatch(t *testing.T) {
	l := newBF16Layer(2, 70, 40, 33)
	l.step(true)
	for _, r := range []int{0, 1, 31, 32, 69} {
		one := newBF16Layer(3, 1, 40, 33)
		copy(one.x, l.x[r*StrideBF16(40):][:StrideBF16(40)])
		one.packed.Pack(l.m.w, 40, 33)
		one.work.ForwardF32(one.yf, one.x, &one.packed, l.m.bias, 1)
		one.work.Forward(one.y, one.x, &one.packed, l.m.bias, 1, true)
		if !same(one.yf, l.yf[r*33:(r+1)*33]) || !slices.Equal(one.y[:33], l.y[r*StrideBF16(33):][:33]) {
			t.Errorf("row %d alone differs from row %d in the batch", r, r)
		}
	}
}

func TestBF16LayerAllocatesNothing(t *testing.T) {
	l := newBF16Layer(3, 20, 40, 33)
	l.step(true)
	if n := testing.AllocsPerRun(5, func() {
		l.packed.Pack(l.m.w, l.in, l.out)
		l.products(true)
	}); n != 0 {
		t.Errorf("%v allocations a step", n)
	}
}

// TestBF16SurvivesThreadChanges runs products in many goroutines that yield, as
// tiles are a thread's.
func TestBF16SurvivesThreadChanges(t *testing.T) {
	if err := NoBF16(); err != nil {
		t.Skip(err)
	}
	want := newBF16Layer(4, 64, 64, 64)
	want.step(true)
	done := make(chan bool)
	for range 8 {
		go func() {
			ok := true
			for range 50 {
				l := newBF16Layer(4, 64, 64, 64)
				l.step(true)
				ok = ok && same(l.yf, want.yf) && same(l.dw, want.dw)
			}
			done <- ok
		}()
	}
	for range 8 {
		if !<-done {
			t.Error("a goroutine computed something else")
		}
	}
}

// BenchmarkBF16 reports the GFLOP/s of the bfloat16 products, those of float32 in the same
// run, and the ratio. Packing of weights and, for the weight gradient, of x and dy is
// included.
//
//	go test -run '^$' -bench BF16 -cpu 1 ./internal/kernel/f32
func BenchmarkBF16(b *testing.B) {
	if err := NoBF16(); err != nil {
		b.Skip(err)
	}
	for _, s := range [][3]int{{256, 600, 256}, {256, 256, 256}, {256, 256, 1}, {1024, 600, 256}, {1024, 256, 256}} {
		rows, in, out := s[0], s[1], s[2]
		l := newBF16Layer(1, rows, in, out)
		l.step(true)
		var p Packed
		var scratch Scratch
		p.Pack(l.m.w, in, out)
		for _, c := range []struct {
			name      string
			half, f32 func()
		}{
			{"pack", func() { l.packed.Pack(l.m.w, in, out) }, func() { p.Pack(l.m.w, in, out); p.PackGrad() }},
			{"forward", func() { l.work.Forward(l.y, l.x, &l.packed, l.m.bias, rows, true) },
				func() { Forward(l.m.y, l.m.x, &p, l.m.bias, rows, true) }},
			{"input", func() { l.work.GradInput(l.dx, l.dy, &l.packed, rows, l.x) },
				func() { GradInput(l.m.dx, l.m.dy, &p, rows, l.m.x) }},
			{"input32", func() { l.work.GradInputF32(l.dxf, l.dy, &l.packed, rows) },
				func() { GradInput(l.m.dx, l.m.dy, &p, rows, nil) }},
			{"weight", func() { l.work.GradWeight(l.dw, l.db, l.x, l.dy, rows, in, out) },
				func() { scratch.GradWeight(l.m.dw, l.m.db, l.m.x, l.m.dy, rows, in, out) }},
			{"step", func() {
				ConvertBF16(l.x, l.m.x, rows, in)
				l.packed.Pack(l.m.w, in, out)
				l.work.Forward(l.y, l.x, &l.packed, l.m.bias, rows, true)
				l.work.GradInput(l.dx, l.dy, &l.packed, rows, l.x)
				l.work.GradWeight(l.dw, l.db, l.x, l.dy, rows, in, out)
			}, func() {
				p.Pack(l.m.w, in, out)
				Forward(l.m.y, l.m.x, &p, l.m.bias, rows, true)
				GradInput(l.m.dx, l.m.dy, &p, rows, l.m.x)
				scratch.GradWeight(l.m.dw, l.m.db, l.m.x, l.m.dy, rows, in, out)
			}},
		} {
			b.Run(fmt.Sprintf("%s/%dx%dx%d", c.name, rows, in, out), func(b *testing.B) {
				versus(b, 2*float64(rows*in*out), func() {}, c.half, c.f32)
			})
		}
	}
}

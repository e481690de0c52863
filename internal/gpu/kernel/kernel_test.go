//go:build gpu

package kernel

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/gpu/cuda"
	"github.com/wdlrun/wdlrun/internal/gpu/cudatest"
	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

var gpu struct {
	files  cudatest.Files
	device *cuda.Device
	stream *cuda.Stream
	set    *Set
}

// open opens the device of the stand-ins.
func open(files cudatest.Files) error {
	library, err := cuda.Open(cuda.Files{CUDA: files.CUDA, CUBLAS: files.CUBLAS})
	if err != nil {
		return err
	}
	gpu.files = files
	if gpu.device, err = library.Device(0); err != nil {
		return err
	}
	var failed error
	gpu.stream, err = gpu.device.Stream()
	gpu.set, failed = Load(gpu.device)
	return errors.Join(err, failed)
}

func TestMain(m *testing.M) {
	os.Exit(cudatest.Main(PTX, func(f cudatest.Files) int {
		err, code := open(f), 1
		if err == nil {
			code = m.Run()
			err = errors.Join(gpu.stream.Close(), gpu.set.Close(), gpu.device.Close())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}))
}

// memory is a test's room on the device.
type memory struct {
	t    *testing.T
	pool *cuda.Pool
	host *cuda.Pinned
}

func newMemory(t *testing.T, floats int) *memory {
	t.Helper()
	pool, err := gpu.device.Pool(floats)
	host, e := gpu.device.Pin(floats)
	fatal.If(t, errors.Join(err, e))
	t.Cleanup(func() {
		if err := errors.Join(gpu.stream.Wait(), pool.Close(), host.Close()); err != nil {
			t.Error(err)
		}
	})
	return &memory{t, pool, host}
}

// in copies floats to the device.
func (m *memory) in(x ...float32) cuda.Buffer {
	m.t.Helper()
	b, h := m.pool.Cut(len(x)), m.host.Cut(len(x))
	copy(h, x)
	m.do(gpu.stream.CopyIn(b, h))
	return b
}

// out copies them back.
func (m *memory) out(b cuda.Buffer) []float32 {
	m.t.Helper()
	h := m.host.Cut(b.Len)
	m.do(gpu.stream.CopyOut(h, b))
	m.do(gpu.stream.Wait())
	return h
}

func (m *memory) do(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// same compares results to the bit.
func (m *memory) same(what string, got cuda.Buffer, want []float32) {
	m.t.Helper()
	m.near(what, got, want, 0)
}

// near allows an error relative to the larger of 1 and the number.
func (m *memory) near(what string, got cuda.Buffer, want []float32, tolerance float64) {
	m.t.Helper()
	for i, x := range m.out(got) {
		w := float64(want[i])
		if e := math.Abs(float64(x) - w); math.Float32bits(x) != math.Float32bits(want[i]) && !(e <= tolerance*max(1, math.Abs(w))) {
			m.t.Fatalf("%s: float %d is %v, want %v", what, i, x, want[i])
		}
	}
}

func random(n int, scale float64) []float32 {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(scale * r.NormFloat64())
	}
	return x
}

// TestPTX: what the kernels promise depends on instructions that round each operation
// once. Drivers may fuse a mul and an add without .rn. An array in local memory is one that the
// compiler did not keep in registers.
func TestPTX(t *testing.T) {
	for _, bad := range []string{`(?m)^\s*\.extern`, `\bcall\b`, `\bfma\b`, `\b(add|sub|mul)\.f(32|64)`, `\.approx`, `\.ftz`, `\batom\b`, `\bred\b`, `\.local\b`} {
		if found := regexp.MustCompile(bad).FindString(PTX); found != "" {
			t.Errorf("the PTX has %q", found)
		}
	}
	// A division in double precision takes about 20 instructions, which most devices run slowly. The
	// loss has two for each sample.
	if n := strings.Count(PTX, "div.rn.f64"); n > 2 {
		t.Errorf("%d divisions in double precision", n)
	}
	if _, bias, _ := strings.Cut(PTX, ".entry bias_act("); strings.Contains(bias[:strings.Index(bias, "\n}")], ".f64") {
		t.Error("an activation is computed in double precision")
	}
	sizes := map[string]uintptr{
		"bag_index": unsafe.Sizeof(bagIndexArgs{}), "pool": unsafe.Sizeof(poolArgs{}), "pool_wide": unsafe.Sizeof(poolWideArgs{}), "pool_grad": unsafe.Sizeof(poolGradArgs{}),
		"bias_act": unsafe.Sizeof(biasActArgs{}), "act_grad": unsafe.Sizeof(actGradArgs{}), "dropout": unsafe.Sizeof(dropoutArgs{}),
		"column_sums": unsafe.Sizeof(columnSumsArgs{}), "column_total": unsafe.Sizeof(columnTotalArgs{}), "add": unsafe.Sizeof(addArgs{}),
		"norm_sums": unsafe.Sizeof(normSumsArgs{}), "norm_total": unsafe.Sizeof(normTotalArgs{}), "norm_forward": unsafe.Sizeof(normForwardArgs{}), "norm_backward": unsafe.Sizeof(normBackwardArgs{}),
		"loss": unsafe.Sizeof(lossArgs{}), "cross_forward": unsafe.Sizeof(crossForwardArgs{}), "cross_backward": unsafe.Sizeof(crossBackwardArgs{}),
		"fm_forward": unsafe.Sizeof(fmForwardArgs{}), "fm_total": unsafe.Sizeof(fmTotalArgs{}), "fm_backward": unsafe.Sizeof(fmBackwardArgs{}),
		"cin_transpose": unsafe.Sizeof(cinTransposeArgs{}), "cin_add_transposed": unsafe.Sizeof(cinTransposeArgs{}), "cin_products": unsafe.Sizeof(cinProductsArgs{}),
		"cin_maps_grad": unsafe.Sizeof(cinProductsArgs{}), "cin_fields_grad": unsafe.Sizeof(cinProductsArgs{}),
		"cin_sums": unsafe.Sizeof(cinSumsArgs{}), "cin_spread": unsafe.Sizeof(cinSumsArgs{}),
		"sgd": unsafe.Sizeof(updateArgs{}), "adagrad": unsafe.Sizeof(updateArgs{}), "adam": unsafe.Sizeof(updateArgs{}), "ftrl": unsafe.Sizeof(updateArgs{}),
		"square_sums": unsafe.Sizeof(squareSumsArgs{}), "double_sums": unsafe.Sizeof(doubleSumsArgs{}),
	}
	entries := regexp.MustCompile(`\.entry (\w+)\(\s*\.param \.align 8 \.b8 \w+\[(\d+)\]`).FindAllStringSubmatch(PTX, -1)
	if len(entries) != len(names) {
		t.Errorf("%d entries, %d names", len(entries), len(names))
	}
	for _, e := range entries {
		if want, ok := sizes[e[1]]; !ok || e[2] != strconv.Itoa(int(want)) {
			t.Errorf("the argument of %s has %s bytes, %d here", e[1], e[2], want)
		}
	}
}

// TestUpdatesHaveTheBitsOfTheCPU compares steps of each rule with internal/kernel/f32.
func TestUpdatesHaveTheBitsOfTheCPU(t *testing.T) {
	const n = 1000
	for _, u := range []f32.Update{
		{Rule: f32.SGD, Rate: .3},
		{Rule: f32.Adagrad, Rate: .05, Epsilon: 1e-10},
		{Rule: f32.Adam, Rate: .001, Beta1: .9, Beta2: .999, Unbias1: 1 / .19, Unbias2: 1 / .001999, Epsilon: 1e-8, Keep: .99999},
		{Rule: f32.FTRL, Rate: .1, Beta: 1, L1: .5, L2: .25},
	} {
		mem := newMemory(t, 40*n)
		w, g, state := random(n, .1), random(n, 1), random(u.Rule.StateLen(n), 1)
		for i := range state {
			if u.Rule != f32.FTRL || i >= n {
				state[i] = float32(math.Abs(float64(state[i])))
			}
		}
		m := f32.Gradient{Scale: 1. / 3, Decay: .01, Clip: .9}
		dw, dg, ds := mem.in(w...), mem.in(g...), mem.in(state...)
		for range 3 {
			mem.do(gpu.set.Update(gpu.stream, u.Rule, u.Constants(m), dw, dg, ds))
			u.Vector(w, g, state, m)
		}
		mem.same(fmt.Sprint("rule ", u.Rule, ": parameters"), dw, w)
		mem.same(fmt.Sprint("rule ", u.Rule, ": state"), ds, state)
	}
}

func TestActivations(t *testing.T) {
	const rows, cols = 9, 37
	x, bias, dy := random(rows*cols, 5), random(cols, 1), random(rows*cols, 1)
	x[3], x[5], x[7], x[8], bias[3], bias[5], bias[7] = float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 40, 0, 0, 0
	for act, f := range map[Act]func(x float64) (y, slope float64){
		Identity: func(x float64) (float64, float64) { return x, 1 },
		ReLU: func(x float64) (float64, float64) {
			if x <= 0 {
				return 0, 0
			}
			return x, 1
		},
		Tanh: func(x float64) (float64, float64) {
			y := math.Tanh(x)
			return y, 1 - y*y
		},
		Sigmoid: func(x float64) (float64, float64) {
			y := 1 / (1 + math.Exp(-x))
			return y, y * (1 - y)
		},
	} {
		mem := newMemory(t, 10_000)
		y, dx := make([]float32, len(x)), make([]float32, len(x))
		for i, v := range x {
			a, slope := f(float64(v + bias[i%cols]))
			y[i], dx[i] = float32(a), float32(slope*float64(dy[i]))
		}
		dev, b, grad := mem.in(x...), mem.in(bias...), mem.in(dy...)
		mem.do(gpu.set.BiasAct(gpu.stream, dev, b, cols, act))
		got := mem.out(dev)
		if !math.IsNaN(float64(got[3])) {
			t.Errorf("activation %d of NaN is %v", act, got[3])
		}
		got[3], y[3] = 0, 0
		mem.near(fmt.Sprint("activation ", act), mem.in(got...), y, 1e-6)
		mem.do(gpu.set.ActGrad(gpu.stream, grad, mem.in(y...), act))
		if act != Identity && act != ReLU {
			dx[3] = mem.out(grad)[3] // of the 0 above, not of the NaN
		}
		if act == ReLU {
			dx[3] = 0
		}
		mem.near(fmt.Sprint("gradient of activation ", act), grad, dx, 1e-6)
	}
}

// TestActivationsAreAccurate computes tanh and sigmoid of floats of all magnitudes, and compares with
// double precision in units in the last place.
func TestActivationsAreAccurate(t *testing.T) {
	var x []float32
	for bits := uint64(0); bits < 1<<32; bits += 35_003 {
		if v := math.Float32frombits(uint32(bits)); v == v {
			x = append(x, v)
		}
	}
	mem := newMemory(t, 2*len(x)+200)
	for act, f := range map[Act]func(float64) float64{Tanh: math.Tanh, Sigmoid: func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }} {
		mem.pool.Reset()
		mem.host.Reset()
		y := mem.in(x...)
		mem.do(gpu.set.BiasAct(gpu.stream, y, cuda.Buffer{}, 1, act))
		most := map[Act]float64{Tanh: 2, Sigmoid: 3}[act]
		for i, got := range mem.out(y) {
			want := f(float64(x[i]))
			unit := float64(math.Nextafter32(float32(math.Abs(want)), 2)) - math.Abs(float64(float32(want)))
			if e := math.Abs(float64(got)-want) / unit; !(e <= most) {
				t.Fatalf("activation %d of %v is %v, want %v: an error of %.1f units", act, x[i], got, want, e)
			}
		}
	}
}

func TestColumnSums(t *testing.T) {
	for _, shape := range [][2]int{{0, 5}, {1, 1}, {63, 3}, {64, 3}, {65, 3}, {300, 130}} {
		rows, cols := shape[0], shape[1]
		mem := newMemory(t, 200_000)
		x, want := random(rows*cols, 1), make([]float32, cols)
		for from := 0; from < rows; from += sumRows {
			part := make([]float32, cols)
			for i := from * cols; i < min(from+sumRows, rows)*cols; i++ {
				part[i%cols] += x[i]
			}
			for j, v := range part {
				want[j] += v
			}
		}
		total := mem.in(random(cols, 1)...)
		mem.do(gpu.set.ColumnSums(gpu.stream, total, mem.in(x...), mem.in(make([]float32, PartialSums(rows, cols))...), rows, cols))
		mem.same(fmt.Sprint(shape), total, want)
	}
}

func TestLosses(t *testing.T) {
	const n = 500
	logit, net, weight := random(n, 4), random(n, 1), random(n, 1)
	label := make([]float32, n)
	bias := float32(.25)
	z := make([]float32, n)
	for i := range label {
		label[i], weight[i] = float32(i%2), float32(math.Abs(float64(weight[i])))
		z[i] = logit[i] + bias + net[i]
	}
	ones := make([]float32, n)
	for i := range ones {
		ones[i] = 1
	}
	for kind, f := range map[LossKind]func(grad, logit, label, weight []float32) float64{
		LogLoss: dense.WeightedLogLoss, SquaredLoss: dense.SquaredLoss, PoissonLoss: dense.PoissonLoss,
	} {
		for _, w := range [][]float32{nil, weight} {
			mem, used := newMemory(t, 20_000), ones
			l := Losses{Logit: mem.in(logit...), Net: mem.in(net...), Bias: mem.in(bias), Label: mem.in(label...),
				DLogit: mem.in(ones...), Loss: mem.in(ones...), Share: .5, Kind: kind}
			if w != nil {
				used, l.Weight = w, mem.in(w...)
			}
			grad, losses := make([]float32, n), make([]float32, n)
			for i := range losses {
				losses[i] = float32(f(grad[i:i+1], z[i:i+1], label[i:i+1], used[i:i+1]) / 2)
				grad[i] /= 2
			}
			mem.do(gpu.set.Loss(gpu.stream, l))
			mem.same("logit", l.Logit, z)
			mem.near(fmt.Sprint("gradient of loss ", kind), l.DLogit, grad, 1e-7)
			mem.near(fmt.Sprint("loss ", kind), l.Loss, losses, 1e-7)
		}
	}
	mem := newMemory(t, 1000)
	far := Losses{Logit: mem.in(300, -300, 1e6, -1e6), Label: mem.in(0, 0, 1, 1), DLogit: mem.in(9, 9, 9, 9), Loss: mem.in(9, 9, 9, 9), Share: 1}
	mem.do(gpu.set.Loss(gpu.stream, far))
	mem.same("gradient far out", far.DLogit, []float32{1, 0, 0, -1})
	mem.same("loss far out", far.Loss, []float32{300, 0, 0, 1e6})
}

func TestCross(t *testing.T) {
	const rows, cols, n = 7, 11, 77
	mem := newMemory(t, 10_000)
	u, bias, x0, x, dy, sum := random(n, 1), random(cols, 2), random(n, 3), random(n, 4), random(n, 5), random(n, 6)
	y, du := make([]float32, n), make([]float32, n)
	biased := make([]float32, n)
	first, second := make([]float32, n), make([]float32, n)
	for i := range n {
		biased[i] = u[i] + bias[i%cols]
		y[i] = float32(x0[i]*biased[i]) + x[i]
		du[i], first[i] = dy[i]*x0[i], dy[i]*biased[i]
		second[i] = sum[i] + float32(dy[i]*biased[i])
	}
	dev, out, grad, at := mem.in(u...), mem.in(u...), mem.in(dy...), mem.in(sum...)
	in, ddu := mem.in(x0...), mem.in(u...)
	mem.do(gpu.set.CrossForward(gpu.stream, out, dev, mem.in(bias...), in, mem.in(x...)))
	mem.same("u", dev, biased)
	mem.same("y", out, y)
	mem.do(gpu.set.CrossBackward(gpu.stream, at, ddu, grad, in, dev, false))
	mem.same("du", ddu, du)
	mem.same("dx0, added", at, second)
	mem.do(gpu.set.CrossBackward(gpu.stream, at, ddu, grad, in, dev, true))
	mem.same("dx0, first", at, first)
}

func TestFM(t *testing.T) {
	f := FM{Rows: 6, Fields: 5, Embed: 4, Width: 23}
	layer := dense.NewFM("fm", f.Fields, f.Embed, f.Width)
	x, y, dx, dy := random(f.Rows*f.Width, 1), random(f.Rows, 1), random(f.Rows*f.Width, 2), random(f.Rows, 3)
	mem := newMemory(t, 10_000)
	dev, out, grad := mem.in(x...), mem.in(y...), mem.in(dx...)
	sum, term := mem.pool.Cut(f.Rows*f.Embed), mem.pool.Cut(f.Rows*f.Embed)
	mem.do(f.Forward(gpu.set, gpu.stream, out, sum, term, dev))
	want, err := layer.Forward(x, f.Rows, true)
	mem.do(err)
	for i, v := range want {
		y[i] += v
	}
	mem.near("output", out, y, 1e-5)
	mem.do(f.Backward(gpu.set, gpu.stream, grad, mem.in(dy...), dev, sum))
	layer.AddBackward(dx, dy, f.Rows)
	mem.near("gradient", grad, dx, 1e-6)
}

func TestSquareSums(t *testing.T) {
	for _, n := range []int{1, 32, 33, 5000, 70_001} {
		g, w := random(n, 1), random(n, 1)
		mem := newMemory(t, 4*n+1000)
		partials, totals := NormSums(n)
		partial, total := mem.pool.Cut(2*partials), mem.pool.Cut(2*totals)
		mem.do(gpu.set.SquareSums(gpu.stream, total, partial, mem.in(g...), mem.in(w...), .5, .25))
		out, got, want := mem.out(total), 0., 0.
		for i := range totals {
			got += *(*float64)(unsafe.Pointer(&out[2*i]))
		}
		for i := range g {
			v := float64(.5*g[i] + .25*w[i])
			want += v * v
		}
		if math.Abs(got/want-1) > 1e-7 {
			t.Errorf("%d numbers: %v, want %v", n, got, want)
		}
	}
}

// TestSquareSumsOccupyADevice: the sums of a large parameter are as many blocks as an H100 can run at once.
func TestSquareSumsOccupyADevice(t *testing.T) {
	t.Setenv("STANDIN_MULTIPROCESSORS", "132")
	library, err := cuda.Open(cuda.Files{CUDA: gpu.files.CUDA, CUBLAS: gpu.files.CUBLAS})
	fatal.If(t, err)
	device, err := library.Device(0)
	fatal.If(t, err)
	set, err := Load(device)
	stream, failed := device.Stream()
	fatal.If(t, errors.Join(err, failed))
	const n = 10_000_000
	partials, totals := NormSums(n)
	pool, err := device.Pool(n + 2*partials + 2*totals + 1000)
	fatal.If(t, err)
	g := pool.Cut(n)
	work := gpu.files.Enqueued(func() {
		fatal.If(t, errors.Join(set.SquareSums(stream, pool.Cut(2*totals), pool.Cut(2*partials), g, g, 1, 0), stream.Wait()))
	})
	if len(work) != 2 || work[0].Name != "square_sums" || work[0].At < 1024 || work[1].Name != "double_sums" || totals > 8192 {
		t.Errorf("%v; %d sums in total, which the host adds", work, totals)
	}
	fatal.If(t, errors.Join(pool.Close(), stream.Close(), set.Close(), device.Close()))
}

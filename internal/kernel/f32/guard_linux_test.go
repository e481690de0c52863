package f32

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// guarded returns a copy of v that ends (or begins) at a page that must not be
// touched: a kernel that reaches past a slice dies there.
func guarded(t *testing.T, v []float32, atEnd bool) []float32 {
	t.Helper()
	page := unix.Getpagesize()
	size := (4*len(v) + page - 1) / page * page
	m, err := unix.Mmap(-1, 0, size+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	fatal.If(t, err)
	t.Cleanup(func() { _ = unix.Munmap(m) })
	for _, p := range [][]byte{m[:page], m[page+size:]} {
		fatal.If(t, unix.Mprotect(p, unix.PROT_NONE))
	}
	if len(v) == 0 {
		return nil
	}
	at := page
	if atEnd {
		at += size - 4*len(v)
	}
	g := unsafe.Slice((*float32)(unsafe.Pointer(&m[at])), len(v))
	copy(g, v)
	return g
}

func TestProductsStayWithinTheirSlices(t *testing.T) {
	for _, shape := range [][3]int{{1, 1, 1}, {15, 9, 33}, {27, 31, 40}, {5, 64, 17}, {29, 50, 7}, {14, 14, 32}} {
		for _, atEnd := range []bool{true, false} {
			eachBackend(func(string) {
				m := newBatch(4, shape[0], shape[1], shape[2])
				for _, v := range []*[]float32{&m.x, &m.w, &m.bias, &m.y, &m.dy, &m.dx, &m.dw, &m.db} {
					*v = guarded(t, *v, atEnd)
				}
				m.run(true)
				if d := m.differ(); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

func TestSparseProductsStayWithinTheirSlices(t *testing.T) {
	for _, shape := range [][3]int{{17, 65, 64}, {21, 79, 90}, {16, 128, 71}} {
		for _, atEnd := range []bool{true, false} {
			eachBackend(func(string) {
				m := newBatch(4, shape[0], shape[1], shape[2])
				thin(m.x, .7, 1)
				thin(m.dy, .7, 2)
				for _, v := range []*[]float32{&m.x, &m.w, &m.bias, &m.y, &m.dy, &m.dx, &m.dw, &m.db} {
					*v = guarded(t, *v, atEnd)
				}
				m.runSparse(new(Scratch), true)
				if d := m.differ(); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

func TestUpdatesStayWithinTheirRecords(t *testing.T) {
	for _, r := range rules {
		for _, dim := range []int{1, 7, 8, 10, 16, 19, 33} {
			for _, atEnd := range []bool{true, false} {
				eachBackend(func(string) {
					guard := func(v []float32) []float32 { return guarded(t, v, atEnd) }
					recs := newRecords(rand.New(rand.NewPCG(6, 1)), r.rule, 15, dim, guard)
					u := testUpdate(r.rule)
					recs.grads = guard(recs.grads)
					if d := recs.step(&u, Gradient{0.5, 0.1, 1}); d != "" {
						t.Error(d)
					}
				})
			}
		}
	}
}

func TestElementsStayWithinTheirSlices(t *testing.T) {
	for n := 1; n < 40; n += 6 {
		for _, atEnd := range []bool{true, false} {
			eachBackend(func(string) {
				guard := func(v []float32) []float32 { return guarded(t, v, atEnd) }
				rng := rand.New(rand.NewPCG(6, uint64(n)))
				x, y, z := guard(random(rng, n)), guard(random(rng, n)), guard(random(rng, n))
				bf := unsafe.Slice((*BF16)(unsafe.Pointer(&guard(make([]float32, (n+1)/2))[0])), n+n%2)
				if !atEnd {
					bf = bf[:n]
				}
				ToBF16(bf[len(bf)-n:], x)
				FromBF16(x, bf[len(bf)-n:])
				Axpy(y, 2, x)
				Scale(y, 2)
				ReLUGrad(y, x)
				SumSquares(x)
				FirstNonFinite(x)
				Sigmoid(z, x)
				SigmoidLoss(z, x, y)
				if d := poolBoth(uint64(n), 3, n, 0, atEnd, false, guard); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

// TestBF16ProductsStayWithinTheirSlices also where dw and the float32 results end
// in the middle of a block.
func TestBF16ProductsStayWithinTheirSlices(t *testing.T) {
	for _, s := range [][3]int{{1, 1, 1}, {33, 40, 17}, {32, 32, 64}} {
		for _, atEnd := range []bool{true, false} {
			guard := func(v []float32) []float32 { return guarded(t, v, atEnd) }
			half := func(v []BF16) []BF16 {
				g := guard(unsafe.Slice((*float32)(unsafe.Pointer(&v[0])), len(v)/2))
				return unsafe.Slice((*BF16)(unsafe.Pointer(&g[0])), len(v))
			}
			want, l := newBF16Layer(7, s[0], s[1], s[2]), newBF16Layer(7, s[0], s[1], s[2])
			want.step(true)
			for _, v := range []*[]float32{&l.m.w, &l.m.bias, &l.m.dw, &l.m.db, &l.yf, &l.dxf} {
				*v = guard(*v)
			}
			for _, v := range []*[]BF16{&l.x, &l.y, &l.dx, &l.dy} {
				*v = half(*v)
			}
			l.step(true)
			if !same(l.yf, want.yf) || !same(l.dxf, want.dxf) || !same(l.dw, want.dw) {
				t.Errorf("%v: other results in guarded memory", s)
			}
		}
	}
}

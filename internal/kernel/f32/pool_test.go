package f32

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// bagsOf makes n bags of rows of dim floats out of a matrix of size rows.
func bagsOf(rng *rand.Rand, n, rows, dim int, weighted bool) Bags {
	b := Bags{Offsets: []int32{0}}
	for range n {
		for range rng.IntN(4) {
			b.At = append(b.At, uint32(rng.IntN(rows)*dim))
		}
		b.Offsets = append(b.Offsets, int32(len(b.At)))
	}
	if weighted {
		b.Coefs = random(rng, len(b.At))
	}
	return b
}

// singlesOf makes n bags of one row each.
func singlesOf(rng *rand.Rand, n, rows, dim int) (b Bags) {
	for range n {
		b.At = append(b.At, uint32(rng.IntN(rows)*dim))
	}
	return b
}

// poolBoth runs both functions by a backend and by the portable code and
// describes the first difference. place moves slices to where they end.
func poolBoth(seed uint64, n, dim, gap int, weighted, add bool, place func([]float32) []float32) string {
	rng := rand.New(rand.NewPCG(seed, 1))
	const rows = 9
	stride := dim + gap
	matrix, dst := place(random(rng, rows*dim)), place(random(rng, max((n-1)*stride+dim, 0)))
	bags, single := bagsOf(rng, n, rows, dim, weighted), singlesOf(rng, n, rows, dim)
	run := func() [4][]float32 {
		pooled, grads := place(slices.Clone(dst)), place(slices.Clone(matrix))
		pooledSingles, gradsOfSingles := place(slices.Clone(dst)), place(slices.Clone(matrix))
		Pool(pooledSingles, stride, matrix, single, dim, add)
		PoolGrad(gradsOfSingles, single, dst, stride, dim)
		Pool(pooled, stride, matrix, bags, dim, add)
		PoolGrad(grads, bags, dst, stride, dim)
		return [...][]float32{pooled, grads, pooledSingles, gradsOfSingles}
	}
	got, b := run(), active
	active = nil
	want := run()
	active = b
	for i, name := range []string{"Pool", "PoolGrad", "Pool of singles", "PoolGrad of singles"} {
		if !alike(got[i], want[i]) {
			return fmt.Sprintf("%s: %s of %d bags of %d, stride %d, differs from the plain loop", Backend(), name, n, dim, stride)
		}
	}
	return ""
}

func here(v []float32) []float32 { return v }

func TestPoolsAreThePlainLoops(t *testing.T) {
	eachBackend(func(string) {
		for dim := range 50 {
			for n := range 5 {
				for k := range 4 {
					if d := poolBoth(uint64(dim*100+n*10+k), n*7, dim, k, k%2 == 0, k < 2, here); d != "" {
						t.Fatal(d)
					}
				}
			}
		}
	})
}

func FuzzPools(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint8(16), uint8(0), true, false)
	f.Fuzz(func(t *testing.T, seed uint64, n, dim, gap uint8, weighted, add bool) {
		eachBackend(func(string) {
			if d := poolBoth(seed, int(n), int(dim), int(gap), weighted, add, here); d != "" {
				t.Fatal(d)
			}
		})
	})
}

func TestPoolPanicsOutOfRange(t *testing.T) {
	v := make([]float32, 8)
	bag := func(at ...uint32) Bags { return Bags{Offsets: []int32{0, int32(len(at))}, At: at} }
	for name, f := range map[string]func(){
		"row":          func() { Pool(v, 2, v, bag(0, 7), 2, false) },
		"row backward": func() { PoolGrad(v, bag(7), v, 2, 2) },
		"dst":          func() { Pool(v[:1], 2, v, bag(0), 2, false) },
		"stride":       func() { Pool(v[:3], 2, v, Bags{Offsets: []int32{0, 0, 0}}, 2, false) },
		"offsets":      func() { Pool(v, 2, v, Bags{Offsets: []int32{0, 2, 1}, At: []uint32{0, 0}}, 2, false) },
		"begin":        func() { Pool(v, 2, v, Bags{Offsets: []int32{-1, 1}, At: []uint32{0}}, 2, false) },
		"end":          func() { Pool(v, 2, v, Bags{Offsets: []int32{0, 2}, At: []uint32{0}}, 2, false) },
		"single":       func() { Pool(v, 2, v, Bags{At: []uint32{0, 7}}, 2, false) },
		"single back":  func() { PoolGrad(v, Bags{At: []uint32{7}}, v, 2, 2) },
		"no offsets":   func() { Pool(v, 2, v, Bags{At: []uint32{0}, Coefs: v[:1]}, 2, false) },
		"coefficients": func() { Pool(v, 2, v, Bags{Offsets: []int32{0, 1}, At: []uint32{0}, Coefs: v[:0]}, 2, false) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a wrong %s did not panic", name)
				}
			}()
			f()
		}()
	}
}

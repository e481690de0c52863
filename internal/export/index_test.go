package export

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// TestIndexIsABijection: an index leads each hash to its record, and uses every place
// once, for any number of lines.
func TestIndexIsABijection(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, 50, 56, 57, 5000, 100000} {
		hashes := make([]uint64, n)
		for i := range hashes {
			hashes[i] = rng.Uint64()
		}
		slices.Sort(hashes)
		for _, estimate := range []int{n, n / 2, 2 * n} {
			var records []byte
			p := newPlacer(estimate, keyBytes, func(b []byte) error { records = append(records, b...); return nil })
			for _, h := range hashes {
				_, err := p.add(h, h)
				fatal.If(t, err)
			}
			fatal.If(t, p.end())
			fatal.If(t, p.index.check(n, nil))
			m := mapped{n: n, records: records, index: p.index}
			searched, found := 0, make([]bool, n)
			for _, h := range hashes {
				i, pilot := p.index.find(h, p.lines)
				if pilot == anyPlace {
					i = m.search(h, h)
					searched++
				}
				if key, _ := m.row(int(i)); key != h || found[i] {
					t.Fatalf("%d records, %d expected: hash %x leads to record %d, which has the key %x or was found before", n, estimate, h, i, key)
				}
				found[i] = true
			}
			if limit := n/5000 + n/50*max(0, n/max(1, estimate)-1); searched > limit {
				t.Errorf("%d records, %d expected: %d are searched for, at most %d should be", n, estimate, searched, limit)
			}
		}
	}
}

// TestChosenKeysAreFound: keys chosen so that their hashes are neighbours are found, alone and
// after a merge.
func TestChosenKeysAreFound(t *testing.T) {
	of := shape(2, 1)
	salt := table.Salt(of.Name)
	var keys []uint64
	for i := range uint64(3000) {
		keys = append(keys, unmix(1<<60+i)^salt)
	}
	if h := hashOf(keys[7], salt); h != 1<<60+7 {
		t.Fatalf("hash %x", h)
	}
	m, _ := openKeys(t, keys, float32s, of)
	both := mergeLayers([]mapped{m, m}, nil)
	if both.n != len(keys) {
		t.Fatalf("%d records of %d", both.n, len(keys))
	}
	for _, m := range []mapped{m, both} {
		ask, dst := append(slices.Clone(keys), unmix(1<<60+9999)^salt), make([]float32, 3*len(keys)+3)
		modelOf(m).Read([]step.Query{{Keys: ask, Values: dst}})
		for i, k := range keys {
			if dst[3*i] != float32(k%1000) {
				t.Fatalf("key %d: %v", k, dst[3*i:3*i+3])
			}
		}
		if !table.IsUnknown(dst[3*len(keys):]) {
			t.Fatalf("a key without a row: %v", dst[3*len(keys):])
		}
	}
}

// TestLayersMerge: layers of any sizes, added one after the other, have each key once, with the row
// of the newest layer, in few layers.
func TestLayersMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	of := shape(2, 1)
	salt := table.Salt(of.Name)
	want := map[uint64]float32{}
	var layers []mapped
	for round := range 40 {
		most := 1 + rng.IntN(2000)
		layers = addLayer(layers, changesOf(salt, of, most, func(key uint64, row []float32) {
			row[0] = float32(round)
			want[key] = row[0]
		}), nil)
		for i := range layers[1:] {
			if layers[i].n < layerRatio*layers[i+1].n {
				t.Fatalf("layers of %d and %d rows", layers[i].n, layers[i+1].n)
			}
		}
	}
	if len(layers) > 1 {
		layers = []mapped{mergeLayers(layers, nil)}
	}
	rows := 0
	last := uint64(0)
	_ = merge(layers, false, func(hash, key uint64, row []float32) error {
		if hash < last || row[0] != want[key] {
			t.Fatalf("row %d: hash %x after %x, key %d: %v, want %v", rows, hash, last, key, row[0], want[key])
		}
		last = hash
		rows++
		return nil
	})
	if rows != len(want) || layers[0].n != rows {
		t.Errorf("%d rows of %d keys, the table has %d", rows, len(want), layers[0].n)
	}
}

// unmix is the inverse of the finalizer of SplitMix64.
func unmix(x uint64) uint64 {
	inverse := func(a uint64) uint64 {
		y := a
		for range 6 {
			y *= 2 - a*y
		}
		return y
	}
	x ^= x>>31 ^ x>>62
	x *= inverse(0x94d049bb133111eb)
	x ^= x>>27 ^ x>>54
	x *= inverse(0xbf58476d1ce4e5b9)
	return x ^ x>>30 ^ x>>60
}

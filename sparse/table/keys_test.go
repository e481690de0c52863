package table

import (
	"testing"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// unmix is the inverse of f32.Mix. Tests use it to make keys with chosen hashes.
func unmix(x uint64) uint64 {
	x ^= x>>31 ^ x>>62
	x *= 0x319642b2d24d8ec3
	x ^= x>>27 ^ x>>54
	x *= 0x96de1b173f119089
	return x ^ x>>30 ^ x>>60
}

// TestUnmix: unmix is the inverse of f32.Mix.
func TestUnmix(t *testing.T) {
	for i := range uint64(1000) {
		if x := i * f32.Golden; f32.Mix(unmix(x)) != x {
			t.Fatalf("f32.Mix(unmix(%x)) is %x", x, f32.Mix(unmix(x)))
		}
	}
}

// crowded returns a key with a chosen hash. There are few shards and slots, so that keys collide
// and chains of probes wrap around the end of a segment.
func crowded(salt uint64, b byte, n uint64) uint64 {
	slot := (uint64(b&15) - 8) & (1<<20 - 1) // the last slots of a segment and the first ones
	return unmix(uint64(b>>6)<<62|uint64(b>>4&3)<<50|n<<20|slot) ^ salt
}

// FuzzKeys compares a table's index and a Set with Go maps while keys are inserted and removed.
// A script consists of pairs of bytes: an operation and a selection of keys.
func FuzzKeys(f *testing.F) {
	f.Add([]byte{0, 7, 0, 8, 0, 9, 1, 7, 0, 7, 2, 8})
	f.Add([]byte{0xf0, 0, 0xf0, 64, 0xf0, 128, 0xf1, 0, 0xf1, 64, 0xf0, 1, 3, 1, 0xf3, 0, 0xf3, 64})
	f.Fuzz(func(t *testing.T, script []byte) {
		x := open(t, 4, Part{Name: "p", Dim: 1})
		set, salt := NewSet(x.Salt(), nil, 1), x.Salt()
		rows, ids := map[uint64]Row{}, map[uint64]uint32{}
		keys, found, numbers := make([]uint64, 91), make([]Row, 91), make([]uint32, 91)
		for ; len(script) >= 2 && len(script) <= 200; script = script[2:] {
			some := keys[:1+int(script[0]>>4)*6]
			for i := range some {
				some[i] = crowded(salt, script[1], uint64(i))
			}
			switch script[0] & 3 {
			case 0:
				fatal.If(t, x.insertAll(some, found))
				for i, key := range some {
					if r, ok := rows[key]; ok && r != found[i] {
						t.Fatalf("key %x moved from row %d to %d", key, r, found[i])
					}
					rows[key] = found[i]
				}
			case 1:
				n := x.Delete(some)
				for _, key := range some {
					if _, ok := rows[key]; ok {
						n--
					}
					delete(rows, key)
				}
				if n != 0 {
					t.Fatalf("%d keys too many were deleted", n)
				}
			case 2:
				set.Reset()
				clear(ids)
			case 3:
				set.Add(some, numbers)
				for i, key := range some {
					if _, ok := ids[key]; !ok {
						ids[key] = uint32(len(ids))
					}
					if numbers[i] != ids[key] {
						t.Fatalf("key %x has number %d, want %d", key, numbers[i], ids[key])
					}
				}
			}
			fatal.If(t, x.Find(some, found))
			for i, key := range some {
				if found[i] != rows[key] {
					t.Fatalf("key %x has row %d, want %d", key, found[i], rows[key])
				}
			}
		}
		if x.Rows() != len(rows) || set.Len() != len(ids) {
			t.Fatalf("%d rows and %d numbers, want %d and %d", x.Rows(), set.Len(), len(rows), len(ids))
		}
		taken := map[Row]bool{}
		for key := range rows {
			if err := x.Find([]uint64{key}, found); err != nil || found[0] != rows[key] || taken[found[0]] {
				t.Fatalf("key %x has row %d, want %d of its own: %v", key, found[0], rows[key], err)
			}
			taken[found[0]] = true
		}
	})
}

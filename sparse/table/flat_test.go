package table

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// flatIndex returns an index of many segments, with its keys and rows.
func flatIndex(rng *rand.Rand, shards, n int) (x index, keys []uint64, rows []Row) {
	x = newIndex(rng.Uint64(), shards)
	for i := range n {
		key := rng.Uint64()
		x.insert(key, hash(x.salt, key), Row(i+1))
		keys, rows = append(keys, key), append(rows, Row(i+1))
	}
	return x, keys, rows
}

// TestFlatLeadsToEverySegment compares the flat directory with the directories of the shards,
// while segments split and after shards were dropped and filled again.
func TestFlatLeadsToEverySegment(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	for _, shards := range []int{1, 4, 64} {
		x, _, _ := flatIndex(rng, shards, 0)
		check := func(when string) {
			t.Helper()
			for range 2000 {
				h, s := rng.Uint64(), &x.none
				if d := x.segment(h); d != nil {
					s = d
				}
				if i := h >> (64 - x.depth); x.flat[i] != &s.buckets[0] || int(x.masks[i]) != len(s.buckets)-1 {
					t.Fatalf("%d shards, %s: hash %x leads to a wrong segment, of %d buckets", shards, when, h, len(s.buckets))
				}
			}
		}
		fill := func(n int, when string) {
			t.Helper()
			for i := range n {
				key := rng.Uint64()
				if x.insert(key, hash(x.salt, key), Row(i+1)); i%(n/20) == 0 {
					check(when)
				}
			}
		}
		fill(100_000, "while it is filled")
		if x.depth == x.bits && shards < 64 {
			t.Errorf("%d shards: no segment was split", shards)
		}
		for shard := 0; shard < shards; shard += 2 {
			x.drop(shard)
		}
		check("after shards were dropped")
		fill(40_000, "while they are filled again")
	}
}

// TestFindAtAnyDepth finds all keys of the index, and no others, at any depth of the flat
// directory and without it.
func TestFindAtAnyDepth(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	x, keys, rows := flatIndex(rng, 2, 20_000)
	for range 1000 {
		keys, rows = append(keys, rng.Uint64()), append(rows, 0)
	}
	counted, first := x.bytes, len(x.flat)
	got := make([]Row, len(keys))
	for flat := true; flat; x.deepen() {
		flat = x.flat != nil
		clear(got)
		if cold := x.findAll(keys, got); cold || !slices.Equal(got, rows) {
			t.Fatalf("depth %d of %d, flat %v: not every key leads to its row", x.depth, maxFlat, flat)
		}
		if !flat {
			break
		}
	}
	if want := counted - flatBytes*int64(first-len(x.shards)); x.bytes != want {
		t.Errorf("%d bytes without the flat directory, want %d", x.bytes, want)
	}
}

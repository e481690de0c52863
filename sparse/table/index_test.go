package table

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestBucketIsALine compares the size of a bucket with the size that the assembly assumes.
func TestBucketIsALine(t *testing.T) {
	if n := unsafe.Sizeof(bucket{}); n != lineBytes || bucketBytes != lineBytes {
		t.Errorf("a bucket has %d bytes and counts with %d, want %d", n, bucketBytes, lineBytes)
	}
}

// checkBuckets checks the invariants of find: used places precede free ones, free places have
// key 0, and each bucket counts and marks the keys that are in a later bucket because it was
// full.
func checkBuckets(t *testing.T, x *index) {
	t.Helper()
	for shard := range x.shards {
		d := &x.shards[shard]
		held := 0
		for i := 0; i < len(d.segments); i += len(d.segments) >> d.segments[i].depth {
			s := d.segments[i]
			mask, n := uint64(len(s.buckets)-1), 0
			passed := make([]uint16, len(s.buckets))
			for at := range s.buckets {
				b := &s.buckets[at]
				for j, row := range b.rows {
					if row == 0 {
						if b.keys[j] != 0 || j < bucketKeys-1 && b.rows[j+1] != 0 {
							t.Fatalf("a free place of bucket %d has key %x; the bucket has rows %v", at, b.keys[j], b.rows)
						}
						continue
					}
					n++
					h := hash(x.salt, b.keys[j])
					for k := h & mask; k != uint64(at); k = (k + 1) & mask {
						if passed[k]++; !s.buckets[k].passedBy(h) {
							t.Fatalf("bucket %d does not mark key %x, which is in bucket %d", k, b.keys[j], at)
						}
					}
				}
			}
			for at, want := range passed {
				if b := &s.buckets[at]; b.passed != want || want == 0 && b.marks != 0 {
					t.Fatalf("bucket %d counts %d keys with marks %b, want %d", at, b.passed, b.marks, want)
				}
			}
			if n != s.n || n > s.limit {
				t.Fatalf("a segment counts %d keys (limit %d) but has %d", s.n, s.limit, n)
			}
			held += n
		}
		if held != x.keys[shard] {
			t.Fatalf("shard %d counts %d keys but has %d", shard, x.keys[shard], held)
		}
	}
}

// TestBucketsCountWhatPassed inserts and removes keys, many of them with the same first bucket,
// and checks the invariants.
func TestBucketsCountWhatPassed(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 1))
	for _, most := range []int{4, 9, 60, 3000, 12_000} {
		x := newIndex(rng.Uint64(), 2)
		var keys []uint64
		for round := range 4 {
			for len(keys) < most {
				h := rng.Uint64()
				if round%2 == 0 {
					h &^= uint64(rng.IntN(1024)) // favours the first buckets
				}
				key := unmix(h) ^ x.salt
				if x.find(key, h) != 0 {
					continue
				}
				keys = append(keys, key)
				x.insert(key, h, Row(len(keys)))
			}
			checkBuckets(t, &x)
			rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			for _, key := range keys[most/4:] {
				h := hash(x.salt, key)
				if x.remove(key, h); x.find(key, h) != 0 {
					t.Fatalf("key %x is found after it was removed", key)
				}
			}
			keys = keys[:most/4]
			checkBuckets(t, &x)
			for _, key := range keys {
				if x.find(key, hash(x.salt, key)) == 0 {
					t.Fatalf("key %x is not found after others were removed", key)
				}
			}
		}
	}
}

// TestFindEndsWhereEveryBucketWasPassed builds a segment in which keys have passed every bucket,
// as insertions and removals can leave it. A search for an absent key must end.
func TestFindEndsWhereEveryBucketWasPassed(t *testing.T) {
	x := newIndex(7, 1)
	key := func(i, bucket uint64) (key, h uint64) {
		h = i<<20 | bucket // all have the same mark
		return unmix(h) ^ x.salt, h
	}
	insert := func(bucket uint64, numbers ...uint64) {
		for _, i := range numbers {
			key, h := key(i, bucket)
			x.insert(key, h, Row(i))
		}
	}
	insert(0, 1, 2, 3, 4, 5, 6) // 6 is in bucket 1
	insert(1, 7, 8, 9)
	for i := range uint64(2) {
		key, h := key(i+1, 0)
		x.remove(key, h)
		insert(1, 10+i) // 11 is in bucket 0
	}
	checkBuckets(t, &x)
	buckets := x.shards[0].segments[0].buckets
	if len(buckets) != 2 || buckets[0].passed != 1 || buckets[1].passed != 1 {
		t.Fatalf("%d buckets, which were passed by %d and %d keys; want 2, 1 and 1", len(buckets), buckets[0].passed, buckets[len(buckets)-1].passed)
	}
	rows := make([]Row, 1)
	absent, h := key(99, 1)
	if x.findAll([]uint64{absent}, rows) || rows[0] != 0 || x.find(absent, h) != 0 {
		t.Error("a key is found that was not inserted")
	}
	six, h := key(6, 0)
	*x.segment(h).find(six, h) |= onDisk
	if cold := x.findAll([]uint64{six}, rows); !cold || rows[0] != 6|onDisk {
		t.Errorf("row %d in the second bucket is on disk, but was found as %d, on disk: %v", 6|onDisk, rows[0], cold)
	}
}

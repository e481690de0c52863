package table

import (
	"errors"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/wdlrun/wdlrun/optim"
)

// FuzzGather compares the fast gather with its specification and checks that nothing outside the
// rows is written.
func FuzzGather(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint8(8), uint8(0), uint8(40))
	f.Add(uint64(2), uint8(130), uint8(31), uint8(5), uint8(7))
	f.Add(uint64(3), uint8(1), uint8(1), uint8(1), uint8(0))
	f.Fuzz(func(t *testing.T, seed uint64, rows, width, gap, coming uint8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n, w := int(rows), int(width)
		stride := w + int(gap)
		from := make([]float32, 1000)
		for i := range from {
			from[i] = float32(rng.NormFloat64())
		}
		addrs := make([]*byte, n+int(coming))
		for i := range addrs {
			addrs[i] = (*byte)(unsafe.Pointer(&from[rng.IntN(len(from)-w)]))
		}
		got := make([]float32, n*stride+3)
		for i := range got {
			got[i] = -7
		}
		want := slices.Clone(got)
		gather(got, stride, addrs, n, w)
		gatherPlain(want, stride, addrs, n, w)
		if !slices.Equal(got, want) {
			t.Fatalf("%d rows of %d, stride %d:\n%v\nwant\n%v", n, w, stride, got, want)
		}
		prefetch(addrs, 64*w) // never faults at any address
	})
}

// TestLocateIsWhereItemsLie: locate returns the addresses of items and stamps, also at the
// borders of slabs.
func TestLocateIsWhereItemsLie(t *testing.T) {
	for _, size := range []int{4, 36, 64, 40000} {
		s := newSlabs(size)
		addrs := make([]*byte, 300)
		if s.locate([]Row{0, 0}, addrs); addrs[0] != nil || addrs[1] != nil {
			t.Errorf("items of %d bytes: item 0 has an address before memory is reserved", size)
		}
		last := 40 << 20 / size // items that fill several slabs
		s.reserve(uint32(last))
		items := []Row{0, 1, Row(last)}
		for _, k := range s.full {
			if n := len(k.mem) / size; n > 0 && n < last { // on both sides of a border
				items = append(items, Row(n-1), Row(n), Row(n+1))
			}
		}
		for len(items) < 300 {
			items = append(items, Row(rand.IntN(last+1)))
		}
		x := memory{records: s, notes: newNotes(&s)}
		x.notes.stamps.reserve(uint32(last))
		pairs := make([]optim.Record, len(items))
		s.locate(items, addrs)
		x.locate(items, pairs)
		for i, item := range items {
			if want := (*byte)(s.at(uint32(item))); addrs[i] != want || (*byte)(unsafe.Pointer(pairs[i].At)) != want {
				t.Fatalf("items of %d bytes: item %d is at %p and %p, want %p", size, item, addrs[i], pairs[i].At, want)
			}
			if want := (*uint32)(x.notes.stamps.at(uint32(item))); pairs[i].Mark != want {
				t.Fatalf("items of %d bytes: the stamp of item %d is at %p, want %p", size, item, pairs[i].Mark, want)
			}
		}
		if err := errors.Join(s.free(), x.notes.free()); err != nil {
			t.Error(err)
		}
	}
}

// TestLocateKnowsEverySlab does the same with slabs that are too large to allocate.
func TestLocateKnowsEverySlab(t *testing.T) {
	var x Table
	x.records = slabs{size: 36}
	x.notes = newNotes(&x.records)
	for k := range x.records.place {
		x.records.place[k].origin = uintptr(k+1) << 40
		x.notes.stamps.place[k].origin = uintptr(k+50) << 40
	}
	var rows []Row
	for k := range 32 {
		first, last := Row(1)<<k>>1, Row(1)<<k-1
		rows = append(rows, first, last, first+(last-first)/3)
	}
	for n := 1; n <= len(rows); n++ {
		rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		at := make([]optim.Record, n+1)
		x.locate(rows[:n], at)
		for i, r := range rows[:n] {
			slab := uintptr(bits.Len32(uint32(r)))
			want, stamp := (slab+1)<<40+36*uintptr(r), (slab+50)<<40+4*uintptr(r)
			if got := at[i]; uintptr(unsafe.Pointer(got.At)) != want || uintptr(unsafe.Pointer(got.Mark)) != stamp {
				t.Fatalf("row %d, number %d of %d, is at %p and its stamp at %p, want %#x and %#x", r, i, n, got.At, got.Mark, want, stamp)
			}
		}
		if at[n] != (optim.Record{}) {
			t.Fatalf("%d rows: one more was written", n)
		}
	}
}

// TestCopyFoundSeesEveryMissingRow: copyFound copies row numbers and reports whether any is 0,
// at every position.
func TestCopyFoundSeesEveryMissingRow(t *testing.T) {
	for n := range 40 {
		rows := make([]Row, n)
		for i := range rows {
			rows[i] = Row(1 + rand.IntN(1<<31-1))
		}
		for missing := -1; missing < n; missing++ {
			src, got := slices.Clone(rows), make([]Row, n+1)
			if missing >= 0 {
				src[missing] = 0
			}
			if is := copyFound(got[:n], src); is != (missing >= 0) || !slices.Equal(got[:n], src) || got[n] != 0 {
				t.Fatalf("copied %d as %d; row %d was set to 0, reported: %v", src, got, missing, is)
			}
		}
	}
}

// TestHashesOfManyKeysAreThoseOfEach: the hashes of many keys equal the hash of each key.
func TestHashesOfManyKeysAreThoseOfEach(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	for n := range 140 {
		keys, salt := make([]uint64, n), rng.Uint64()
		for i := range keys {
			keys[i] = rng.Uint64() >> rng.IntN(64)
		}
		got := make([]uint64, n+1)
		hashAll(got, keys, salt)
		for i, key := range keys {
			if want := hash(salt, key); got[i] != want {
				t.Fatalf("%d keys: the hash of %x is %x, want %x", n, key, got[i], want)
			}
		}
		if got[n] != 0 {
			t.Fatalf("%d keys: one hash more was written", n)
		}
	}
}

// TestMatchIsPlain compares the fast match with its specification. The slots contain other keys,
// the same key in another epoch, and the key itself.
func TestMatchIsPlain(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	s := NewSet(rng.Uint64(), nil, 1)
	for range 300 {
		s.epoch = 1 + rng.Uint64N(1<<32-1)
		s.slots = make([]setSlot, 1<<(6+rng.IntN(6)))
		keys := make([]uint64, rng.IntN(setChunk+1))
		var hashes [setChunk]uint64
		for i := range keys {
			keys[i] = rng.Uint64() >> rng.IntN(60)
			slot := &s.slots[hash(s.salt, keys[i])&uint64(len(s.slots)-1)]
			switch rng.IntN(4) {
			case 0:
				*slot = setSlot{keys[i], s.epoch<<32 | rng.Uint64N(1<<32)}
			case 1:
				*slot = setSlot{keys[i], rng.Uint64()}
			case 2:
				*slot = setSlot{keys[i] ^ 1<<rng.IntN(64), s.epoch<<32 | rng.Uint64N(1<<32)}
			}
		}
		hashPlain(hashes[:], keys, s.salt)
		ids, wanted := make([]uint32, len(keys)+1), make([]uint32, len(keys)+1)
		var missed, missing [setChunk]uint8
		got, want := s.match(keys, &hashes, ids, &missed), s.matchPlain(keys, &hashes, wanted, &missing)
		if !slices.Equal(got, want) || !slices.Equal(ids, wanted) {
			t.Fatalf("%d keys in %d slots: missed %d, want %d; numbers %d, want %d", len(keys), len(s.slots), got, want, ids, wanted)
		}
	}
}

// TestAskBucketsIsPlain compares the buckets where probing starts with the specification, for
// shards without keys and for segments of many sizes.
func TestAskBucketsIsPlain(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	for _, shards := range []int{1, 2, 64, 1024} {
		x, _, _ := flatIndex(rng, shards, 5000)
		for n := range group + 1 {
			var got, want flatGroup
			for i := range got.hashes {
				got.hashes[i] = rng.Uint64()
			}
			want.hashes = got.hashes
			x.prefetchFlat(got.hashes[:n])
			x.prefetchBuckets(&got, n)
			if x.prefetchBucketsPlain(&want, n); got != want {
				t.Fatalf("%d keys, %d shards: probing starts at %v, want %v", n, shards, got.starts, want.starts)
			}
		}
	}
}

// TestMatchBucketsIsPlain compares the fast match with its specification. The buckets contain
// the key in each place or not at all, its mark or others, and free places.
func TestMatchBucketsIsPlain(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	for range 2000 {
		var g flatGroup
		keys := make([]uint64, rng.IntN(group+1))
		for i := range keys {
			b := &bucket{passed: uint16(rng.Uint32()), marks: uint16(rng.Uint32())}
			for j := range rng.IntN(bucketKeys + 1) {
				b.keys[j], b.rows[j] = rng.Uint64()>>rng.IntN(64), Row(1+rng.IntN(1<<31-1))
			}
			switch j := rng.IntN(2 * bucketKeys); {
			case j < bucketKeys:
				keys[i] = b.keys[j] // the key of a free place is 0
			default:
				keys[i] = rng.Uint64()
			}
			if rng.IntN(8) == 0 {
				b.rows[0] |= onDisk
			}
			g.hashes[i], g.starts[i] = rng.Uint64(), b
		}
		got, want := make([]Row, len(keys)+1), make([]Row, len(keys)+1)
		var missed, missing [group]uint8
		n, union := g.match(keys, got, &missed)
		m, all := g.matchPlain(keys, want, &missing)
		if n != m || union != all || !slices.Equal(got, want) || !slices.Equal(missed[:n], missing[:m]) {
			t.Fatalf("%d keys: rows %v with bits %x, others %v; want %v with %x, %v", len(keys), got, union, missed[:n], want, all, missing[:m])
		}
	}
}

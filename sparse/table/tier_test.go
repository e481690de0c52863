package table

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// withTier returns a trained table most of whose rows are on disk.
func withTier(t *testing.T) (*Table, []uint64) {
	x := openAs(t, Config{})
	fatal.If(t, x.OpenTier(t.TempDir(), 20_000))
	keys := make([]uint64, 1000)
	for i := range keys {
		keys[i] = uint64(i)
	}
	train(t, x, 1, 2, keys...)
	fatal.If(t, x.Find(nil, nil))
	if x.tier.rows() < 500 || x.Rows() != 1000 {
		t.Fatalf("%d of %d rows are on disk", x.tier.rows(), x.Rows())
	}
	return x, keys
}

// broken is a store that fails on demand.
type broken struct {
	store
	full bool
}

func (b *broken) put(ids []Row, record func(i int) []byte) error {
	if b.full {
		return errors.New("no space left on device")
	}
	return b.store.put(ids, record)
}

// TestFullDiskLosesNothing: if the disk is full, Find returns an error and no row is lost.
func TestFullDiskLosesNothing(t *testing.T) {
	x, keys := withTier(t)
	want := openAs(t, Config{})
	train(t, want, 1, 2, keys...)
	b := &broken{store: x.tier.store}
	x.tier.store = b
	rows := make([]Row, len(keys))
	if err := x.Find(keys, rows); err != nil { // reads all rows into memory
		t.Fatal(err)
	}
	b.full = true
	err := x.Find(keys[:1], rows)
	if err == nil || !strings.Contains(err.Error(), `table "x": tier: no space left on device; the rows in memory are whole`) {
		t.Fatalf("with a full disk: %v", err)
	}
	b.full = false
	fatal.If(t, x.Find(keys[:1], rows))
	for _, key := range keys {
		a, b := make([]float32, x.RecordLen()), make([]float32, x.RecordLen())
		held, err := x.Get(key, a)
		if _, e := want.Get(key, b); err != nil || e != nil || !held || fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("key %d: %v, want %v (%v)", key, a, b, err)
		}
	}
}

// TestDamagedTierNamesTheKey: a damaged record on disk is reported with its key.
func TestDamagedTierNamesTheKey(t *testing.T) {
	x, keys := withTier(t)
	var key uint64
	for _, key = range keys {
		if x.index.find(key, hash(x.salt, key)).onDisk() {
			break
		}
	}
	id := x.index.find(key, hash(x.salt, key)) &^ onDisk
	fatal.If(t, x.tier.store.put([]Row{id}, func(int) []byte { return []byte{1, 2} }))
	if err := x.Find([]uint64{key}, make([]Row, 1)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("read key %d: ", key)) {
		t.Fatalf("a truncated record: %v", err)
	}
	if _, err := unseal(seal(nil, 3, []byte("abcd")), 4); err == nil {
		t.Error("the record of another row was accepted")
	}
	damaged := seal(nil, 3, []byte("abcd"))
	damaged[1] ^= 1
	if _, err := unseal(damaged, 3); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a damaged record: %v", err)
	}
}

// TestTierCutShort truncates the file that bbolt has mapped. Reading it is a fault of the
// processor, which must become an error.
func TestTierCutShort(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc to find the file, which has no name")
	}
	x, keys := withTier(t)
	links, err := filepath.Glob("/proc/self/fd/*")
	fatal.If(t, err)
	cut := 0
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && strings.Contains(to, t.TempDir()[:len(t.TempDir())-3]) && strings.Contains(to, ".rows") {
			fatal.If(t, os.Truncate(l, 0))
			cut++
		}
	}
	if cut != 1 {
		t.Fatalf("%d files found", cut)
	}
	err = x.Find(keys, make([]Row, len(keys)))
	if err == nil || !strings.Contains(err.Error(), "the file is damaged") {
		t.Fatalf("a truncated file: %v", err)
	}
}

// TestTierNeedsItsConditions: OpenTier rejects invalid settings with the reason.
func TestTierNeedsItsConditions(t *testing.T) {
	x := openAs(t, Config{})
	for want, err := range map[string]error{
		"needs a folder":            x.OpenTier("", 1<<20),
		"a memory limit of 0 bytes": x.OpenTier(t.TempDir(), 0),
		"no such file":              x.OpenTier("/nonexistent/folder", 1<<20),
		"touches every row":         open(t, 1, Part{Name: "p", Dim: 1, DenseL2: true}).OpenTier(t.TempDir(), 1<<20),
	} {
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), `table "x": tier in `) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestPrefetchReadsAhead: rows announced by Prefetch are read before Find needs them.
func TestPrefetchReadsAhead(t *testing.T) {
	x, keys := withTier(t)
	x.Prefetch(keys[:400])
	x.tier.wait()
	ahead := len(x.tier.staged)
	if ahead == 0 {
		t.Fatal("nothing was read ahead")
	}
	before := x.Counters()
	fatal.If(t, x.Find(keys[:500], make([]Row, 500)))
	after := x.Counters()
	if n := after.ReadAhead - before.ReadAhead; n != int64(ahead) || len(x.tier.staged) != 0 {
		t.Fatalf("Find used %d of the %d rows that were read ahead, and %d remain", n, ahead, len(x.tier.staged))
	}
	if after.FromDisk-before.FromDisk <= int64(ahead) {
		t.Fatal("all rows were read ahead, although 100 were not announced")
	}
}

// TestPrefetchLeavesFaultsToFind: a row that cannot be read ahead is reported by the Find that
// requests it, and not earlier.
func TestPrefetchLeavesFaultsToFind(t *testing.T) {
	x, keys := withTier(t)
	cold := slices.DeleteFunc(slices.Clone(keys), func(key uint64) bool { return !x.index.find(key, hash(x.salt, key)).onDisk() })
	id := x.index.find(cold[7], hash(x.salt, cold[7])) &^ onDisk
	fatal.If(t, x.tier.store.put([]Row{id}, func(int) []byte { return []byte{1, 2} }))
	x.Prefetch(cold)
	fatal.If(t, x.Find(cold[:7], make([]Row, 7)))
	if err := x.Find(cold[7:8], make([]Row, 1)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("read key %d: ", cold[7])) {
		t.Fatalf("a truncated record: %v", err)
	}
}

// inRAM counts the keys whose rows are in memory.
func inRAM(x *Table, keys []uint64) (n int) {
	for _, key := range keys {
		if r := x.index.find(key, hash(x.salt, key)); r != 0 && !r.onDisk() {
			n++
		}
	}
	return n
}

// TestTierTooSmallForItsIndex: rows keep a share of the memory limit, however large the index
// is, and the sufficient limit is reported.
func TestTierTooSmallForItsIndex(t *testing.T) {
	keys := make([]uint64, 20_000)
	for i := range keys {
		keys[i] = uint64(i)
	}
	fill := func(limit int64) *Table {
		x := openAs(t, Config{})
		fatal.If(t, x.OpenTier(t.TempDir(), limit))
		train(t, x, 1, 1, keys...)
		for range 3 {
			fatal.If(t, x.Find(nil, nil))
		}
		return x
	}
	const limit = 200_000
	x := fill(limit)
	least := x.MinMemory()
	if least < limit || x.indexBytes() < limit {
		t.Fatalf("%d bytes are reported as needed, but the index has %d", least, x.indexBytes())
	}
	each := 4 * x.words()
	if n := inRAM(x, keys); n < limit/recordShare*3/4/each || n > limit/recordShare/each {
		t.Errorf("%d rows of %d bytes are in memory, want the share %d of the limit", n, each, limit/recordShare)
	}
	before := x.Counters().ToDisk
	if err := x.Find(nil, nil); err != nil || x.Counters().ToDisk != before {
		t.Errorf("a Find without keys moved %d rows to disk: %v", x.Counters().ToDisk-before, err)
	}
	if y := fill(least); y.MinMemory() != 0 || y.tier.rows() == 0 {
		t.Errorf("with the %d bytes reported as needed %d are, with %d rows on disk", least, y.MinMemory(), y.tier.rows())
	}
}

// TestRowsThatCameBackStay: when a batch needs memory, the rows of the next batch that were just
// read from disk are not moved to disk first, although their stamps are old.
func TestRowsThatCameBackStay(t *testing.T) {
	for _, cfg := range []Config{{}, {Evict: Evict{HalfLife: 100}}} {
		x, keys := openAs(t, cfg), make([]uint64, 4000)
		for i := range keys {
			keys[i] = uint64(i)
		}
		fatal.If(t, x.OpenTier(t.TempDir(), 4000*50))
		for n := range 8 { // the last keys are the most recent
			train(t, x, n+1, 1, keys[n*500:][:500]...)
			fatal.If(t, x.Find(keys[:n], make([]Row, n)))
		}
		cold := slices.DeleteFunc(slices.Clone(keys), func(key uint64) bool { return !x.index.find(key, hash(x.salt, key)).onDisk() })
		if len(cold) < 400 {
			t.Fatalf("%d rows are on disk", len(cold))
		}
		next, others := cold[:100], cold[100:400]
		if err := x.Find(next, make([]Row, 100)); err != nil { // as Prepare does
			t.Fatal(err)
		}
		moved := x.Counters().ToDisk
		fatal.If(t, x.Find(others, make([]Row, 300)))
		fatal.If(t, x.Find(nil, nil))
		if n := inRAM(x, next); x.Counters().ToDisk == moved || n < 95 {
			t.Errorf("%d rows moved to disk, and %d of the 100 rows just read are in memory", x.Counters().ToDisk-moved, n)
		}
	}
}

// TestThawIsOneLook: all rows of a call are read from the file in one transaction, and a row
// that occurs twice is read once.
func TestThawIsOneLook(t *testing.T) {
	x, keys := withTier(t)
	c := &counted{store: x.tier.store}
	x.tier.store = c
	rows := make([]Row, 2*len(keys))
	fatal.If(t, x.Find(append(keys, keys...), rows))
	if back := x.Counters().FromDisk; c.looks != 1 || c.rows < 500 || int64(c.rows) != back || x.tier.rows() != 0 {
		t.Errorf("%d reads for %d rows; %d rows were read, %d remain on disk", c.looks, c.rows, back, x.tier.rows())
	}
	for i := range keys {
		if rows[i] == 0 || rows[i].onDisk() || rows[i] != rows[i+len(keys)] {
			t.Fatalf("key %d: rows %x and %x", keys[i], rows[i], rows[i+len(keys)])
		}
	}
}

type counted struct {
	store
	looks, rows int
}

func (c *counted) get(ids []Row, use func(int, []byte) error) error {
	c.looks, c.rows = c.looks+1, c.rows+len(ids)
	return c.store.get(ids, use)
}

package sparse

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/golden"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// saved is a checkpoint in memory, written concurrently by several ranks.
type saved struct {
	mu       sync.Mutex
	sections map[string][]byte
	past     []byte // the same bytes on every rank
}

func (c *saved) save(s *Store) error {
	c.mu.Lock()
	if c.sections == nil {
		c.sections = map[string][]byte{}
	}
	if past := s.Files().Past(); past != nil {
		var b bytes.Buffer
		if err := past.Save(&b); err != nil {
			return err
		}
		c.past = b.Bytes()
	}
	c.mu.Unlock()
	for _, sec := range s.Files().Sections() {
		var b bytes.Buffer
		if err := s.Files().SaveShard(&b, sec.Table, sec.Shard); err != nil {
			return err
		}
		c.mu.Lock()
		c.sections[sec.Name] = b.Bytes()
		c.mu.Unlock()
	}
	for i, x := range s.tables {
		for _, shard := range s.Shards().Owned() {
			if !x.Seen(shard) {
				continue
			}
			var b bytes.Buffer
			if err := x.SaveSeen(&b, shard); err != nil {
				return err
			}
			c.mu.Lock()
			c.sections[SeenName(s.name(i), shard)] = b.Bytes()
			c.mu.Unlock()
		}
	}
	return nil
}

func (c *saved) load(s *Store) error {
	if past := s.Files().Past(); past != nil {
		if err := past.Load(bytes.NewReader(c.past)); err != nil {
			return err
		}
	}
	for t, table := range s.Config().Tables {
		for _, shard := range s.Shards().Owned() {
			if b, ok := c.sections[SeenName(table.Name, shard)]; ok {
				if err := s.Files().LoadSeen(bytes.NewReader(b), t, shard); err != nil {
					return err
				}
			}
			b, ok := c.sections[SectionName(table.Name, shard)]
			if !ok {
				continue // a shard without rows
			}
			r := bytes.NewReader(b)
			if err := s.Files().LoadShard(r, t, shard); err != nil {
				return err
			}
			if r.Len() != 0 {
				return fmt.Errorf("%d bytes were not read", r.Len())
			}
		}
	}
	return nil
}

// saveAfter runs the first steps of a job and saves. It also returns the rows.
func (j *job) saveAfter(t *testing.T, size, steps int) (*saved, []map[uint64][]float32) {
	t.Helper()
	ck, rows := &saved{}, make([][]map[uint64][]float32, size)
	onRanks(t, size, j.cfg, func(s *Store) error {
		l := s.NewLookup()
		for i := range steps {
			if _, _, err := j.steps[i].run(s, l); err != nil {
				return err
			}
		}
		rows[s.rank] = records(s)
		return ck.save(s)
	})
	all, err := merge(rows)
	fatal.If(t, err)
	return ck, all
}

// continued loads a job into stores, new or used, and runs it from step first to the end.
func (j *job) continued(t *testing.T, ck *saved, size, first int, used bool) ([]map[uint64][]float32, []float64) {
	t.Helper()
	rows, norms := make([][]map[uint64][]float32, size), make([][]float64, size)
	onRanks(t, size, j.cfg, func(s *Store) error {
		l := s.NewLookup()
		if used {
			for i := range j.steps {
				if _, _, err := j.steps[i].run(s, l); err != nil {
					return err
				}
			}
			s.Reset()
		}
		if err := ck.load(s); err != nil {
			return err
		}
		for i := first; i < len(j.steps); i++ {
			_, norm, err := j.steps[i].run(s, l)
			if err != nil {
				return err
			}
			norms[s.rank] = append(norms[s.rank], norm)
		}
		rows[s.rank] = records(s)
		return nil
	})
	all, err := merge(rows)
	fatal.If(t, err)
	sums := make([]float64, len(j.steps)-first)
	for _, of := range norms {
		for i, x := range of {
			sums[i] += x
		}
	}
	return all, sums
}

// TestSaveLoadContinueEqualsUninterrupted stops a job in the middle, saves, loads and continues.
// Rows and norms have the bits of an uninterrupted job.
func TestSaveLoadContinueEqualsUninterrupted(t *testing.T) {
	const steps, half, size = 12, 5, 2
	for _, kind := range optim.Kinds() {
		for _, dense := range []bool{false, true} {
			j := fixedJob(optim.Rule{Kind: kind}, dense, size, steps)
			whole := j.onStores(t, size)
			ck, _ := j.saveAfter(t, size, half)
			for _, used := range []bool{false, true} {
				rows, norms := j.continued(t, ck, size, half, used)
				if err := differ(rows, whole.rows, 0); err != nil {
					t.Errorf("%s, dense %t, used %t: %v", kind, dense, used, err)
				}
				if !slices.Equal(norms, whole.norms[half:]) {
					t.Errorf("%s, dense %t, used %t: squared norms %v, uninterrupted %v", kind, dense, used, norms, whole.norms[half:])
				}
			}
		}
	}
}

// TestAnyNumberOfRanksLoads loads on any number of ranks what two ranks saved, and saves it
// again.
func TestAnyNumberOfRanksLoads(t *testing.T) {
	j := fixedJob(optim.Rule{Kind: "adam"}, true, 2, 5)
	ck, want := j.saveAfter(t, 2, 5)
	for size := 1; size <= 20; size++ { // also more ranks than the 16 shards
		rows, again := make([][]map[uint64][]float32, size), &saved{}
		onRanks(t, size, j.cfg, func(s *Store) error {
			if err := ck.load(s); err != nil {
				return err
			}
			rows[s.rank] = records(s)
			return again.save(s)
		})
		got, err := merge(rows)
		fatal.If(t, err)
		if err := differ(got, want, 0); err != nil {
			t.Errorf("loaded on %d ranks: %v", size, err)
		}
		if !maps.EqualFunc(again.sections, ck.sections, bytes.Equal) {
			t.Errorf("saved by %d ranks, the bytes differ", size)
		}
	}
}

// fixture returns a store of one shard with three rows, and the file of the shard.
func fixture(t testing.TB) (*Store, []byte) {
	s := open(t, fixtureConfig(1))
	fill(t, s)
	var b bytes.Buffer
	fatal.If(t, s.Files().SaveShard(&b, 0, 0))
	return s, b.Bytes()
}

func fill(t testing.TB, s *Store) {
	x := s.tables[0]
	for _, key := range []uint64{math.MaxUint64, 0, 1000} {
		rec := make([]float32, x.RecordLen())
		for i := range rec {
			rec[i] = float32(key%97) + float32(i)/8
		}
		fatal.If(t, x.Put(key, rec))
	}
}

// fixtureConfig returns a configuration whose files have the given format version.
func fixtureConfig(version int) Config {
	c := Config{Shards: 1, Tables: []Table{{Name: "user", Parts: []Part{
		{Name: "deep", Dim: 2, Rule: optim.Rule{Kind: "adam"}, DenseL2: true},
		{Name: "wide", Dim: 1, Rule: optim.Rule{Kind: "ftrl"}},
	}}}}
	if version == 2 {
		c.Tables[0].Evict.HalfLife = 100
	}
	return c
}

// TestFormatsStayReadable compares shards of every format version with stored bytes, and loads
// them; package table does the same for deltas. Version 1 has no notes. Version 2 adds stamp and score.
func TestFormatsStayReadable(t *testing.T) {
	for _, version := range []int{1, 2} {
		s := open(t, fixtureConfig(version))
		fill(t, s)
		same := func(what string, b []byte, load func(s *Store, r io.Reader) error) {
			t.Helper()
			golden.Check(t, fmt.Sprintf("%s-v%d.hex", what, version), hex.Dump(b))
			if b[8] != byte(version) {
				t.Fatalf("a %s of version %d, want %d", what, b[8], version)
			}
			loaded := open(t, fixtureConfig(version))
			fatal.If(t, load(loaded, iotest.OneByteReader(bytes.NewReader(b))))
			fatal.If(t, differ(records(loaded), records(s), 0))
			again := func(s *Store) (b bytes.Buffer) {
				fatal.If(t, s.Files().SaveShard(&b, 0, 0))
				return b
			}
			if a, b := again(loaded), again(s); !bytes.Equal(a.Bytes(), b.Bytes()) {
				t.Errorf("a %s of version %d is saved with other bytes after loading", what, version)
			}
		}
		var shard bytes.Buffer
		fatal.If(t, s.Files().SaveShard(&shard, 0, 0))
		same("shard", shard.Bytes(), func(s *Store, r io.Reader) error { return s.Files().LoadShard(r, 0, 0) })
	}
}

// TestOccurrencesStayReadable does the same for the occurrences of keys without a row.
func TestOccurrencesStayReadable(t *testing.T) {
	cfg := fixtureConfig(1)
	cfg.Tables[0].Admit = table.Admit{After: 3, Counters: 64}
	s, loaded := open(t, cfg), open(t, cfg)
	var b, again bytes.Buffer
	for n := range int64(3) {
		l := s.NewLookup()
		fatal.If(t, errors.Join(s.Pull(l, oneBag(uint64(5+n)), true), s.Push(l), s.Apply(Step{N: 1 + n, Scale: 1, Rate: 1})))
	}
	fatal.If(t, s.tables[0].SaveSeen(&b, 0))
	golden.Check(t, "seen-v1.hex", hex.Dump(b.Bytes()))
	fatal.If(t, errors.Join(
		loaded.Files().LoadSeen(iotest.OneByteReader(bytes.NewReader(b.Bytes())), 0, 0),
		loaded.tables[0].SaveSeen(&again, 0)))
	if !bytes.Equal(again.Bytes(), b.Bytes()) {
		t.Error("occurrences are saved with other bytes after loading")
	}
	if err := loaded.Files().LoadSeen(bytes.NewReader(b.Bytes()), 1, 0); err == nil || !strings.Contains(err.Error(), "table 1: there are 1") {
		t.Errorf("occurrences of a missing table: %v", err)
	}
}

// TestDamagedShardsAreRefused: a truncated file and a flipped byte at any position are rejected
// with the place of the fault, and the store stays empty and usable.
func TestDamagedShardsAreRefused(t *testing.T) {
	_, b := fixture(t)
	refused := func(what string, file []byte) {
		t.Helper()
		s := open(t, fixtureConfig(1))
		err := s.Files().LoadShard(bytes.NewReader(file), 0, 0)
		if err == nil {
			t.Fatalf("%s: the file was accepted", what)
		}
		if !strings.HasPrefix(err.Error(), `sparse: load: rank 0 of 1: table "user": shard 0: `) {
			t.Fatalf("%s: %v does not name the place", what, err)
		}
		if s.Rows(0) != 0 || len(s.Files().Sections()) != 0 {
			t.Fatalf("%s: rows remained", what)
		}
		if err := s.Files().LoadShard(bytes.NewReader(b), 0, 0); err != nil || s.Rows(0) != 3 {
			t.Fatalf("%s: the store cannot be used afterwards: %v", what, err)
		}
	}
	for n := range b {
		refused(fmt.Sprintf("cut at byte %d", n), b[:n])
	}
	for n := range b {
		file := slices.Clone(b)
		file[n] ^= 0x10
		refused(fmt.Sprintf("byte %d flipped", n), file)
	}
}

// TestUnfittingShardsNameBothSides: if a shard does not match the table, the error describes the
// file and the table.
func TestUnfittingShardsNameBothSides(t *testing.T) {
	_, b := fixture(t)
	change := func(f func(cfg *Config)) *Store {
		cfg := fixtureConfig(1)
		f(&cfg)
		return open(t, cfg)
	}
	file := `the file holds shard 0 of 1 of table "user", part "deep" (dim 2, rule adam, state 4), part "wide" (dim 1, rule ftrl, state 2)`
	for want, s := range map[string]*Store{
		`of table "item"`:                change(func(c *Config) { c.Tables[0].Name = "item" }),
		`part "deep" (dim 3`:             change(func(c *Config) { c.Tables[0].Parts[0].Dim = 3 }),
		`part "emb"`:                     change(func(c *Config) { c.Tables[0].Parts[0].Name = "emb" }),
		`(dim 2, rule adagrad, state 2)`: change(func(c *Config) { c.Tables[0].Parts[0].Rule.Kind = "adagrad" }),
		`the table has shard 0 of 2`:     change(func(c *Config) { c.Shards = 2 }),
		`state 4): open it with t`:       change(func(c *Config) { c.Tables[0].Parts = c.Tables[0].Parts[:1] }),
	} {
		err := s.Files().LoadShard(bytes.NewReader(b), 0, 0)
		if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q and %q", err, file, want)
		}
	}
	s, _ := fixture(t)
	if err := s.Files().LoadShard(bytes.NewReader(b), 0, 0); err == nil || !strings.Contains(err.Error(), "holds 3 rows already") {
		t.Errorf("loading twice: %v", err)
	}
	for want, place := range map[string][2]int{"table 1: there are 1": {1, 0}, "there are 1 shards": {0, 1}, "table -1": {-1, 0}} {
		for _, err := range []error{s.Files().LoadShard(bytes.NewReader(b), place[0], place[1]), s.Files().SaveShard(io.Discard, place[0], place[1])} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("table %d shard %d: %v, want %q", place[0], place[1], err, want)
			}
		}
	}
	foreign, err := Open(member{newGroup(2), 1}, plainConfig(1))
	fatal.If(t, err)
	if err := foreign.Files().LoadShard(bytes.NewReader(b), 0, 0); err == nil || !strings.Contains(err.Error(), "rank 0 owns it") {
		t.Errorf("loading another rank's shard: %v", err)
	}
}

// TestLoadNeedsAppliedGradients: loading is rejected while gradients are staged.
func TestLoadNeedsAppliedGradients(t *testing.T) {
	s, b := fixture(t)
	s.Reset()
	l := s.NewLookup()
	fatal.If(t, errors.Join(s.Pull(l, oneBag(5), true), s.Push(l)))
	if err := s.Files().LoadShard(bytes.NewReader(b), 0, 0); err == nil || !strings.Contains(err.Error(), "Apply them") {
		t.Fatalf("loaded with staged gradients: %v", err)
	}
}

// TestSaveReportsAFailedWrite: SaveShard returns the error of a write that fails at any byte.
func TestSaveReportsAFailedWrite(t *testing.T) {
	s, b := fixture(t)
	full := errors.New("no space left")
	for room := range len(b) {
		err := s.Files().SaveShard(&small{room: room, err: full}, 0, 0)
		if !errors.Is(err, full) || !strings.HasPrefix(err.Error(), "sparse: save: ") {
			t.Fatalf("with room for %d bytes: %v", room, err)
		}
	}
}

// small is a writer that fails after a number of bytes.
type small struct {
	room int
	err  error
}

func (w *small) Write(p []byte) (int, error) {
	if len(p) > w.room {
		return w.room, w.err
	}
	w.room -= len(p)
	return len(p), nil
}

// TestAnnouncedSizesAreNotBelieved: a file that announces too many rows is rejected before
// memory is allocated for them.
func TestAnnouncedSizesAreNotBelieved(t *testing.T) {
	_, b := fixture(t)
	rows := 16 + int(binary.LittleEndian.Uint32(b[12:]))
	for _, n := range []uint64{1 << 31, math.MaxUint64} {
		file := slices.Clone(b)
		binary.LittleEndian.PutUint64(file[rows:], n)
		s := open(t, fixtureConfig(1))
		if err := s.Files().LoadShard(bytes.NewReader(file), 0, 0); err == nil {
			t.Fatalf("an announcement of %d rows was accepted", n)
		}
		if m := s.Counters().MemoryBytes; m > 1<<20 {
			t.Fatalf("an announcement of %d rows allocated %d bytes", n, m)
		}
	}
}

// FuzzLoadShard: an invalid file leaves the store empty. A valid one is saved with the same
// bytes.
func FuzzLoadShard(f *testing.F) {
	_, b := fixture(f)
	f.Add(b)
	f.Add(b[:40])
	f.Add([]byte("WDLSHARD"))
	f.Fuzz(func(t *testing.T, file []byte) {
		s := open(t, fixtureConfig(1))
		r := bytes.NewReader(file)
		if err := s.Files().LoadShard(r, 0, 0); err != nil {
			if s.Rows(0) != 0 {
				t.Fatalf("rows remained after %v", err)
			}
			return
		}
		var again bytes.Buffer
		fatal.If(t, s.Files().SaveShard(&again, 0, 0))
		if read := file[:len(file)-r.Len()]; !bytes.Equal(again.Bytes(), read) {
			t.Fatalf("loaded %x, saved %x", read, again.Bytes())
		}
	})
}

// reseal recomputes the checksum after a change.
func reseal(file []byte) []byte {
	body := file[:len(file)-4]
	return binary.LittleEndian.AppendUint32(slices.Clone(body), crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}

// TestForgedShardsAreRefused changes contents and recomputes the checksum. The shards are still
// rejected.
func TestForgedShardsAreRefused(t *testing.T) {
	_, b := fixture(t)
	const size = 8 + 4*9 // bytes of a row: key, 3 values, 6 floats of state
	rows := 16 + int(binary.LittleEndian.Uint32(b[12:])) + 8
	forge := func(f func(b []byte) []byte) []byte { return reseal(f(slices.Clone(b))) }
	for want, file := range map[string][]byte{
		"key 0 follows key 0": forge(func(b []byte) []byte {
			copy(b[rows+size:], b[rows:rows+size])
			return b
		}),
		"key 0 follows key 1000": forge(func(b []byte) []byte {
			copy(b[rows:], b[rows+size:rows+2*size])
			binary.LittleEndian.PutUint64(b[rows+size:], 0)
			return b
		}),
		"1 bytes follow its end": forge(func(b []byte) []byte {
			binary.LittleEndian.PutUint32(b[12:], uint32(rows-8-16+1))
			return slices.Insert(b, rows-8, 0)
		}),
		"17 parts, at most 16": forge(func(b []byte) []byte {
			b[16+8+2+len("user")] = 17
			return b
		}),
		"format version 3": forge(func(b []byte) []byte {
			b[8] = 3
			return b
		}),
	} {
		s := open(t, fixtureConfig(1))
		if err := s.Files().LoadShard(bytes.NewReader(file), 0, 0); err == nil || !strings.Contains(err.Error(), want) || s.Rows(0) != 0 {
			t.Errorf("%v, want %q", err, want)
		}
	}
	cfg := fixtureConfig(1)
	cfg.Shards = 2
	s := open(t, cfg)
	fatal.If(t, s.tables[0].Put(5, make([]float32, s.tables[0].RecordLen())))
	own := ShardOf(Salt("user"), 5, 2)
	var file bytes.Buffer
	fatal.If(t, s.Files().SaveShard(&file, 0, own))
	other := file.Bytes()
	binary.LittleEndian.PutUint32(other[16:], uint32(1-own)) // the shard in the description, which differs from the key's
	s.Reset()
	if err := s.Files().LoadShard(bytes.NewReader(reseal(other)), 0, 1-own); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("key 5 belongs to shard %d", own)) {
		t.Errorf("a key of another shard: %v", err)
	}
}

// saveChanges saves the changes on a rank since a step, by section name.
func saveChanges(s *Store, since int64, to map[string][]byte) error {
	changes := map[string]string{}
	_, err := s.Files().Snapshot(since).take(1<<30, changes)
	for name, text := range changes {
		to[name] = []byte(text)
	}
	return err
}

// TestDeltasMakeTheCopyEqual updates a copy on 3 ranks from a job of 2 ranks: by a full load at
// step 4, then by a delta every 3 steps. The copy equals the job.
func TestDeltasMakeTheCopyEqual(t *testing.T) {
	const size, copies, steps, first, every = 2, 3, 13, 4, 3
	j := fixedJob(optim.Rule{Kind: "adagrad"}, false, size, steps)
	j.cfg.Tables[0].Evict.Age = 3 // so that rows are evicted too
	full, want := map[string][]byte{}, make([][]map[uint64][]float32, size)
	deltas := make([]map[string][]byte, (steps-first)/every)
	var mu sync.Mutex
	onRanks(t, size, j.cfg, func(s *Store) error {
		l := s.NewLookup()
		for i := range j.steps {
			if _, _, err := j.steps[i].run(s, l); err != nil {
				return err
			}
			n := int64(i + 1)
			mu.Lock()
			if n == first {
				maps.Copy(full, save(s))
			}
			if k := int(n-first)/every - 1; n > first && (n-first)%every == 0 {
				if deltas[k] == nil {
					deltas[k] = map[string][]byte{}
				}
				if err := saveChanges(s, n-every, deltas[k]); err != nil {
					return err
				}
			}
			mu.Unlock()
		}
		want[s.rank] = records(s)
		return nil
	})
	got := make([][]map[uint64][]float32, copies)
	onRanks(t, copies, j.cfg, func(s *Store) error {
		chain := append([]map[string][]byte{full}, deltas...)
		for k, files := range chain {
			for _, shard := range s.Shards().Owned() {
				for table := range s.tables {
					name := SectionName(s.name(table), shard)
					if slices.ContainsFunc(chain[k+1:], func(later map[string][]byte) bool { return later[name] != nil }) {
						continue // the shard is saved whole again
					}
					var err error
					if b := files[name]; b != nil {
						err = s.Files().LoadShard(bytes.NewReader(b), table, shard)
					} else if b := files[DeltaName(s.name(table), shard)]; b != nil {
						_, err = s.Files().LoadDelta(bytes.NewReader(b), table, shard)
					}
					if err != nil {
						return err
					}
				}
			}
			for table := range s.tables {
				s.Files().SetNow(table, int64(first+k*every))
			}
		}
		got[s.rank] = records(s)
		return nil
	})
	of, err := merge(got)
	fatal.If(t, err)
	job, err := merge(want)
	fatal.If(t, err)
	if err := differ(of, job, 0); err != nil || len(job[0]) == 0 {
		t.Fatalf("%d rows: %v", len(job[0]), err)
	}
}

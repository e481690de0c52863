package export_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/export"
	"github.com/wdlrun/wdlrun/internal/export/ledger"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// trainee is a model whose rows a test changes, with its published versions.
type trainee struct {
	t      testing.TB
	dir    string
	pub    *export.Publisher
	opt    export.PublishOptions
	tables []sparse.Table
	dense  []byte
	rows   []map[uint64][]float32 // by table
	taken  []*table.Taken         // since the last version
	step   int64
	last   int64 // number of the last version
	rng    *rand.Rand
	warned []string
}

func newTrainee(t testing.TB, full int) *trainee {
	t.Helper()
	m := small(t)
	return traineeOf(t, m, write(t, m, "").Layout().Tables, full)
}

func traineeOf(t testing.TB, m train.Trained, tables []sparse.Table, full int) *trainee {
	t.Helper()
	x := &trainee{tables: tables, t: t, dir: filepath.Join(t.TempDir(), "ctr"), rng: rand.New(rand.NewPCG(5, 6))}
	x.opt = export.PublishOptions{Dir: x.dir, Config: m.Config, Encoder: m.Encoder, Size: 1, FullEvery: full, Keep: ledger.Keep{Versions: 1, Complete: 2}, Warn: func(line string) { x.warned = append(x.warned, line) }}
	err := m.Checkpoint.Read("dense", func(r io.Reader) (err error) { x.dense, err = io.ReadAll(r); return err })
	fatal.If(t, err)
	for i, of := range x.tables {
		x.rows, x.taken = append(x.rows, map[uint64][]float32{}), append(x.taken, &table.Taken{})
		fatal.If(t, step.EachRow(m.Checkpoint, of, func(_ int, key uint64, v []float32) error { x.put(i, key, slices.Clone(v)); return nil }))
	}
	x.open()
	t.Cleanup(func() { x.pub.Close() })
	return x
}

// counted returns the outcomes of the versions from now on.
func (x *trainee) counted() *[]string {
	all := new([]string)
	fatal.If(x.t, x.pub.Close())
	x.opt.Count = func(outcome string) { *all = append(*all, outcome) }
	x.open()
	return all
}

func (x *trainee) open() {
	x.t.Helper()
	var err error
	if x.pub, err = export.OpenPublisher(context.Background(), x.opt); err != nil {
		x.t.Fatal(err)
	}
}

func (x *trainee) put(i int, key uint64, v []float32) {
	x.rows[i][key] = v
	c := x.taken[i]
	if at := slices.Index(c.Keys, key); at >= 0 {
		copy(c.Values[at*len(v):], v)
		return
	}
	c.Keys, c.Values = append(c.Keys, key), append(c.Values, v...)
}

func (x *trainee) remove(i int, key uint64) {
	old, c := x.rows[i][key], x.taken[i]
	delete(x.rows[i], key)
	if at := slices.Index(c.Keys, key); at >= 0 {
		c.Keys, c.Values = slices.Delete(c.Keys, at, at+1), slices.Delete(c.Values, at*len(old), (at+1)*len(old))
	}
	c.Removed = append(c.Removed, key)
}

// train changes some rows, adds some and removes some.
func (x *trainee) train() {
	for i := range x.tables {
		keys := slices.Sorted(maps.Keys(x.rows[i]))
		for range 3 {
			key := keys[x.rng.IntN(len(keys))]
			if x.rng.IntN(3) == 0 {
				key = x.rng.Uint64N(40)
			}
			v := slices.Clone(x.rows[i][keys[0]])
			for j := range v {
				v[j] = float32(x.rng.NormFloat64())
			}
			x.put(i, key, v)
		}
		if key := keys[len(keys)-1]; len(keys) > 4 {
			x.remove(i, key)
		}
	}
}

// publish publishes the next version.
func (x *trainee) publish() error {
	var own export.Piece
	for i, of := range x.tables {
		if err := own.Add(of, x.taken[i]); err != nil {
			return err
		}
	}
	x.step++
	n, err := x.pub.Publish(context.Background(), export.Point{Step: x.step, Taken: 1000 + x.step, Part: x.step}, x.dense, own)
	if err != nil {
		return err
	}
	x.last = n
	for i := range x.taken {
		x.taken[i] = &table.Taken{}
	}
	return nil
}

// check compares a version with the current rows.
func (x *trainee) check(m *export.Model) {
	x.t.Helper()
	for i, held := range x.rows {
		for key := range uint64(60) {
			x.checkRow(m, i, key, held[key])
		}
		for key, want := range held {
			x.checkRow(m, i, key, want)
		}
	}
}

func (x *trainee) checkRow(m *export.Model, i int, key uint64, want []float32) {
	x.t.Helper()
	width := 0
	for _, p := range x.tables[i].Parts {
		width += p.Dim
	}
	got := make([]float32, width)
	m.Read([]step.Query{{Table: i, Keys: []uint64{key}, Values: got}})
	same := table.IsUnknown(got)
	if want != nil {
		same = slices.EqualFunc(got, want, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) })
	}
	if !same {
		x.t.Fatalf("version %d: table %d: key %d: %v, want %v", m.Version(), i, key, got, want)
	}
}

func (x *trainee) version(n int64) string { return filepath.Join(x.dir, strconv.FormatInt(n, 10)) }

func (x *trainee) openAfter(n int64, before *export.Model) *export.Model {
	x.t.Helper()
	m, err := export.OpenAfter(x.version(n), before, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { m.Close() })
	return m
}

// names lists the folder of the versions.
func (x *trainee) names() (all []string) {
	entries, err := os.ReadDir(x.dir)
	if err != nil {
		x.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != ".lock" && e.Name() != ".ledger" {
			all = append(all, e.Name())
		}
	}
	return all
}

// TestVersionsBecomeComplete: one version in three becomes complete while readers follow.
// Older ones are removed, except one complete version. A reader that missed versions opens
// only the last one.
func TestVersionsBecomeComplete(t *testing.T) {
	x := newTrainee(t, 3)
	var m *export.Model
	bases := map[int64]bool{}
	for range 11 {
		x.train()
		fatal.If(t, x.publish())
		m = x.openAfter(x.step, m)
		bases[m.Base()] = true
		x.check(m)
		x.check(x.openAfter(x.step, nil))
		if x.step%3 == 1 && x.step > 1 { // until it is complete
			x.pub.Wait()
		}
	}
	if len(x.warned) > 0 {
		t.Error(x.warned)
	}
	if !maps.Equal(bases, map[int64]bool{1: true, 4: true, 7: true, 10: true}) {
		t.Errorf("bases %v", bases)
	}
	if got := fmt.Sprint(x.names()); got != "[10 11 7]" {
		t.Errorf("left are %v", got)
	}
	files, _ := filepath.Glob(filepath.Join(x.version(10), "*"))
	if s := fmt.Sprint(files); strings.Contains(s, "delta.bin") || !strings.Contains(s, "table-0000.bin") || !strings.Contains(s, "warmup") {
		t.Errorf("the files of a version that became complete: %v", s)
	}
}

// TestPublishersContinue: another process starts with a complete version above the
// existing ones, from a checkpoint or from nothing, and removes the files of a killed
// process.
func TestPublishersContinue(t *testing.T) {
	x := newTrainee(t, 100)
	for range 3 {
		x.train()
		fatal.If(t, x.publish())
	}
	if _, err := export.OpenPublisher(context.Background(), x.opt); err == nil || !strings.Contains(err.Error(), "wait for it") {
		t.Errorf("a second publisher: %v", err)
	}
	fatal.If(t, x.pub.Close())
	for _, name := range []string{".publish-4", ".part-4"} {
		fatal.If(t, os.Mkdir(filepath.Join(x.dir, name), 0o755))
	}
	x.open()
	if x.pub.Highest() != 3 {
		t.Errorf("the highest version is %d", x.pub.Highest())
	}
	m := small(t)
	older, err := x.pub.FromCheckpoint(context.Background(), source(m))
	if err == nil {
		err = x.pub.Restart(older)
	}
	fatal.If(t, err)
	for i := range x.tables { // the rows of the checkpoint, and later changes
		x.rows[i], x.taken[i] = map[uint64][]float32{}, &table.Taken{}
		fatal.If(t, step.EachRow(m.Checkpoint, x.tables[i], func(_ int, key uint64, v []float32) error {
			x.rows[i][key] = slices.Clone(v)
			return nil
		}))
	}
	x.train()
	x.step = 10
	fatal.If(t, x.publish())
	got := x.openAfter(11, nil)
	if x.check(got); got.Base() != 11 {
		t.Errorf("the base of version 11 is %d", got.Base())
	}
	if s := fmt.Sprint(x.names()); s != "[1 11]" {
		t.Errorf("left are %v", s)
	}
}

// TestPublishingOnAFullDisk: after a failure of any operation of the disk, the version is
// not visible and the one before it opens; the next one has its changes.
func TestPublishingOnAFullDisk(t *testing.T) {
	patient.Long(t)
	m := small(t)
	tables := write(t, m, "").Layout().Tables
	every := patient.Size(3, 1)
	for _, full := range []int{1, 100} { // 1: each version becomes complete at once
		for n := 0; ; n += every {
			x := traineeOf(t, m, tables, full)
			x.publish()
			x.pub.Wait()
			x.pub.Close()
			disk := &fullDisk{left: n}
			good := x.opt
			x.opt = export.OnPublish(disk, x.opt)
			x.open()
			x.train()
			err := x.publish()
			x.pub.Wait()
			x.pub.Close()
			if err == nil && len(x.warned) == 0 {
				if n < 8 {
					t.Fatalf("only %d operations", n)
				}
				break
			}
			if err != nil && !errors.Is(err, errFull) {
				t.Fatalf("operation %d: %v", n, err)
			}
			if err != nil && !disk.renamed {
				if s := fmt.Sprint(x.names()); s != "[1]" {
					t.Fatalf("operation %d leaves %v", n, s)
				}
				x.openAfter(1, nil)
			}
			x.opt = good
			x.open()
			for i := range x.rows { // the tables were empty at first
				for key, v := range x.rows[i] {
					x.put(i, key, v)
				}
			}
			if err := x.publish(); err != nil {
				t.Fatalf("operation %d: the next version: %v", n, err)
			}
			x.check(x.openAfter(x.step, nil))
			x.pub.Close()
		}
	}
}

// TestDamagedChangesAreRejected: a version that is truncated at any byte, or with any byte
// changed, does not open, by itself or after the one before. The error names the file.
func TestDamagedChangesAreRejected(t *testing.T) {
	x := newTrainee(t, 100)
	for range 3 {
		x.train()
		fatal.If(t, x.publish())
	}
	one := x.openAfter(1, nil)
	every := patient.Size(17, 1) // odd, so that every bit of a byte is changed
	for _, name := range []string{"MANIFEST.json", "dense.bin", "delta.bin"} {
		path := filepath.Join(x.version(2), name)
		whole, err := os.ReadFile(path)
		fatal.If(t, err)
		rejected := func(b []byte, what string) {
			t.Helper()
			fatal.If(t, os.WriteFile(path, b, 0o644))
			m, err := export.OpenAfter(x.version(2), one, nil)
			if err == nil {
				m.Close()
			}
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Fatalf("%s of %s: %v", what, name, err)
			}
		}
		for n := 0; n < len(whole); n += every {
			rejected(whole[:n], fmt.Sprintf("the first %d bytes", n))
			whole[n] ^= 1 << (n % 8)
			rejected(whole, fmt.Sprintf("another byte %d", n))
			whole[n] ^= 1 << (n % 8)
		}
		rejected(append(slices.Clone(whole), 0), "one byte more")
		fatal.If(t, os.WriteFile(path, whole, 0o644))
	}
	x.check(x.openAfter(3, x.openAfter(2, one)))
	fatal.If(t, os.RemoveAll(x.version(2)))
	if _, err := export.Open(x.version(3)); err == nil || !strings.Contains(err.Error(), "builds upon version 2") {
		t.Errorf("without a version that it builds upon: %v", err)
	}
}

// TestOpeningPauses: complete versions and changes are opened in pieces. A complete
// version reuses the parsed files of another one, if they are the same.
func TestOpeningPauses(t *testing.T) {
	x := newTrainee(t, 100)
	var m *export.Model
	for n := int64(1); n <= 2; n++ {
		x.train()
		fatal.If(t, x.publish())
		pauses := 0
		next, err := export.OpenAfter(x.version(n), m, func() { pauses++ })
		fatal.If(t, err)
		defer next.Close()
		if sections := 3 * len(next.Manifest().Tables); pauses < sections {
			t.Errorf("version %d: %d pauses, its tables have %d sections", n, pauses, sections)
		}
		m = next
	}
	if again := x.openAfter(1, m); again.Encoder() != m.Encoder() || again.Config() != m.Config() {
		t.Error("a version of the same files has parsed them again")
	}
	if other := write(t, small(t), ""); x.openAfter(1, other).Encoder() == other.Encoder() {
		t.Error("a version has the encoder of another one")
	}
}

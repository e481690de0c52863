package table

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/optim"
)

// twin is the specification of a table: a Go map and one loop, without index and disk. Initial
// rows and sketches of occurrences come from the table, because other tests check them.
type twin struct {
	*Table // its configuration, parts and initial rows
	rows   map[uint64]*twinRow
	lost   []uint64         // keys whose rows were removed and whose counts are not yet reset in the sketches of the Table
	gone   map[uint64]int64 // key to the step of its removal
	step   int64
	past   []optim.Step
}

type twinRow struct {
	record []float32
	stamp  int64
	score  float64
}

func newTwin(t *Table) *twin {
	return &twin{Table: t, rows: map[uint64]*twinRow{}, gone: map[uint64]int64{}}
}

// row returns the record of a key as a reader sees it.
func (w *twin) row(key uint64) []float32 {
	if r := w.rows[key]; r != nil {
		return r.record
	}
	rec := make([]float32, w.RecordLen())
	w.Initial(key, rec[:w.width])
	w.round(rec, func(words, values []float32) { nearest(words, values) })
	state := w.width
	for _, p := range w.parts {
		n := p.Rule.StateLen(p.Dim)
		p.Rule.InitState(rec[p.lo:p.hi], rec[state:state+n])
		state += n
	}
	for _, at := range w.past {
		if w.dense {
			w.stepRow(at, key, &twinRow{record: rec}, nil)
		}
	}
	return rec
}

func (w *twin) round(rec []float32, by func(words, values []float32)) {
	if w.cfg.Values == BFloat16 {
		words := make([]float32, w.packed)
		by(words, rec[:w.width])
		expand(rec[:w.width], words)
	}
}

func (w *twin) apply(at optim.Step, keys []uint64, values []float32) {
	w.step = at.N
	touched := map[uint64]bool{}
	if w.sketches != nil {
		w.found = make([]Row, len(keys))
		for i, key := range keys {
			if w.rows[key] != nil {
				w.found[i] = 1
			}
		}
		w.sight(keys, w.found)
	}
	for i, key := range keys {
		r := w.rows[key]
		if r == nil {
			if !w.admits(i) {
				continue
			}
			r = &twinRow{record: w.row(key), stamp: at.N}
			w.rows[key] = r
		}
		touched[key] = true
		w.stepRow(at, key, r, values[i*w.width:(i+1)*w.width])
		r.score, r.stamp = float64(float32(w.score(r))+1), at.N
	}
	for key, r := range w.rows {
		if w.dense && !touched[key] {
			w.stepRow(at, key, r, nil)
		}
	}
	w.past = append(w.past, at)
	w.evict()
	w.forget()
}

// forget lets keys that have lost their rows wait for admission again.
func (w *twin) forget() {
	if w.sketches != nil {
		w.forgetSightings(w.lost)
	}
	w.lost = nil
}

func (w *twin) stepRow(at optim.Step, key uint64, r *twinRow, grad []float32) {
	state := w.width
	for i, p := range w.parts {
		n := p.Rule.StateLen(p.Dim)
		if grad != nil || p.DenseL2 {
			g := make([]float32, p.Dim)
			for d := range g {
				if grad != nil {
					g[d] = at.Scale * grad[p.lo+d]
				}
				if p.L2 != 0 {
					g[d] += float32(float32(p.L2) * r.record[p.lo+d])
				}
				if at.Clip != 0 {
					g[d] *= at.Clip
				}
			}
			u := w.parts[i].Rule.At(optim.Step{N: at.N, Rate: at.Rate, Samples: at.Samples, Batch: at.Batch})
			u.Apply(0, r.record[p.lo:p.hi], g, r.record[state:state+n])
		}
		state += n
	}
	w.round(r.record, func(words, values []float32) {
		stochastic(words, values, f32.Mix(key^w.salt)+f32.Mix(uint64(at.N)))
	})
}

func (w *twin) score(r *twinRow) float64 {
	if w.cfg.Evict.HalfLife == 0 {
		return 0
	}
	life := int64(w.cfg.Evict.HalfLife)
	return float64(float32(r.score * math.Pow(2, -float64(w.step/life-r.stamp/life))))
}

func (w *twin) evict() {
	e := w.cfg.Evict
	for shard := range int64(w.Shards()) {
		var keys []uint64
		for key, r := range w.rows {
			if int64(w.ShardOf(key)) != shard {
				continue
			}
			sweep := (shard-w.step)%sweepEvery == 0
			if sweep && (e.Age > 0 && w.step-r.stamp > int64(e.Age) || w.score(r) < e.MinScore) {
				w.remove(key, w.step)
			} else {
				keys = append(keys, key)
			}
		}
		share := max(1, (e.MaxRows+w.Shards()-1-int(shard))/w.Shards())
		if e.MaxRows == 0 || len(keys) <= share {
			continue
		}
		slices.SortFunc(keys, func(a, b uint64) int {
			x, y := w.rows[a], w.rows[b]
			switch {
			case w.score(x) != w.score(y):
				return cmpFloat(w.score(x), w.score(y))
			case x.stamp != y.stamp:
				return int(x.stamp - y.stamp)
			case a < b:
				return -1
			}
			return 1
		})
		for _, key := range keys[:len(keys)-(share-share/16)] {
			w.remove(key, w.step)
		}
	}
}

func cmpFloat(a, b float64) int {
	if a < b {
		return -1
	}
	return 1
}

func (w *twin) remove(key uint64, step int64) {
	delete(w.rows, key)
	w.lost = append(w.lost, key)
	w.gone[key] = step
}

// differ returns an error that names the first difference between a table and its twin.
func (w *twin) differ(t *Table) error {
	if t.Rows() != len(w.rows) {
		return fmt.Errorf("%d rows, want %d", t.Rows(), len(w.rows))
	}
	n := 0
	for shard := range t.Shards() {
		last, first := uint64(0), true
		err := t.Each(shard, func(key uint64, record []float32) error {
			if !first && key <= last || t.ShardOf(key) != shard {
				return fmt.Errorf("shard %d: key %d after %d", shard, key, last)
			}
			first, last, n = false, key, n+1
			if r := w.rows[key]; r == nil || !bytes.Equal(raw.Bytes(record), raw.Bytes(r.record)) {
				return fmt.Errorf("key %d: %v, want %+v", key, record, r)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if n != len(w.rows) {
		return fmt.Errorf("%d rows listed, want %d", n, len(w.rows))
	}
	return nil
}

func drawConfig(t *rapid.T) Config {
	cfg := Config{Name: "x", Values: rapid.SampledFrom([]string{Float32, BFloat16}).Draw(t, "values")}
	for i := range rapid.IntRange(1, 3).Draw(t, "parts") {
		cfg.Parts = append(cfg.Parts, Part{
			Name: fmt.Sprint(i), Dim: rapid.IntRange(1, 20).Draw(t, "dim"),
			Rule:    optim.Rule{Kind: rapid.SampledFrom(optim.Kinds()).Draw(t, "rule")},
			L2:      rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "l2"),
			DenseL2: cfg.Values == Float32 && rapid.Bool().Draw(t, "dense"),
		})
	}
	if rapid.Bool().Draw(t, "admit") {
		cfg.Admit = Admit{After: rapid.IntRange(1, 4).Draw(t, "after"), Counters: 1 << 18}
	}
	switch rapid.IntRange(0, 4).Draw(t, "evict") {
	case 0:
		cfg.Evict = Evict{Age: rapid.IntRange(1, 100).Draw(t, "age")}
	case 1:
		cfg.Evict = Evict{MaxRows: rapid.IntRange(1, 60).Draw(t, "rows")}
	case 2:
		cfg.Evict = Evict{MaxRows: rapid.IntRange(1, 60).Draw(t, "rows"), HalfLife: rapid.IntRange(1, 9).Draw(t, "life")}
	case 3:
		cfg.Evict = Evict{HalfLife: rapid.IntRange(1, 9).Draw(t, "life"), MinScore: 0.3}
	}
	return cfg
}

// pair is a table with its twin and a replica that is maintained by deltas.
type pair struct {
	t       testing.TB
	table   *Table
	twin    *twin
	replica *Table
	since   int64
	rng     *rand.Rand
	shards  int
	tiered  bool
}

func (p *pair) open(cfg Config) *Table {
	x, err := Open(cfg, 7, p.shards)
	if err == nil && p.tiered {
		err = x.OpenTier(p.t.TempDir(), 3000)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return x
}

// keys draws distinct keys, many of which have occurred before.
func (p *pair) keys() []uint64 {
	set := map[uint64]bool{}
	for range p.rng.IntN(40) {
		key := uint64(p.rng.IntN(60)) << (p.rng.IntN(2) * 32)
		if p.rng.IntN(10) == 0 {
			key = math.MaxUint64 - key
		}
		set[key] = true
	}
	keys := []uint64{}
	for key := range set {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	p.rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

func (p *pair) apply() error {
	keys := p.keys()
	g := Gradients{Keys: keys, Rows: make([]Row, len(keys)), Values: make([]float32, len(keys)*p.table.Width())}
	for i := range g.Values {
		g.Values[i] = float32(p.rng.NormFloat64())
	}
	if err := p.table.Find(keys, g.Rows); err != nil {
		return err
	}
	g.Epoch = p.table.Epoch()
	if p.rng.IntN(3) == 0 { // rows may move to disk in between
		if err := p.read(); err != nil {
			return err
		}
	}
	at := optim.Step{N: p.table.Now() + 1 + int64(p.rng.IntN(40)), Scale: 0.5, Rate: 1, Clip: float32(p.rng.IntN(2)) * 0.7}
	before := p.table.Rows()
	done, err := p.table.Apply(at, g)
	if err != nil {
		return err
	}
	p.twin.apply(at, keys, g.Values)
	if e := p.table.Config().Evict; e == (Evict{}) && p.table.Rows() != before+done.Inserted {
		return fmt.Errorf("%d rows before the step and %d after it, with %+v", before, p.table.Rows(), done)
	}
	return nil
}

func (p *pair) read() error {
	keys := append(p.keys(), p.keys()...)
	p.table.Prefetch(p.keys())
	stride := p.table.Width() + p.rng.IntN(3)
	rows, dst := make([]Row, len(keys)), make([]float32, len(keys)*stride)
	if err := p.table.Find(keys, rows); err != nil {
		return err
	}
	p.table.Read(keys, rows, dst, stride)
	for i, key := range keys {
		want := p.twin.row(key)[:p.table.Width()]
		if held := p.twin.rows[key] != nil; held != (rows[i] != 0) {
			return fmt.Errorf("key %d has row %d; the twin has it: %t", key, rows[i], held)
		}
		if rows[i] == 0 && !p.table.dense { // an initial value is not rounded before it is stored
			want = slices.Clone(want)
			p.table.Initial(key, want)
		}
		if !slices.Equal(dst[i*stride:i*stride+p.table.Width()], want) {
			return fmt.Errorf("key %d reads %v, want %v", key, dst[i*stride:(i+1)*stride], want)
		}
	}
	return nil
}

func (p *pair) delete() error {
	keys, want := p.keys(), 0
	for _, key := range keys {
		if p.twin.rows[key] != nil {
			p.twin.remove(key, p.twin.step+1)
			want++
		}
	}
	p.twin.forget()
	if n := p.table.Delete(keys); n != want {
		return fmt.Errorf("%d keys deleted, want %d", n, want)
	}
	return nil
}

// reload saves all shards and continues with a new table that has loaded them.
func (p *pair) reload() error {
	p.tiered = p.rng.IntN(2) == 0 && !p.table.dense
	again := p.open(p.table.Config())
	again.SetNow(p.table.Now())
	var past bytes.Buffer
	if err := errors.Join(p.table.past.Save(&past), again.past.Load(&past)); err != nil {
		return err
	}
	for shard := range p.table.Shards() {
		var b, c bytes.Buffer
		if err := p.table.SaveShard(&b, shard); err != nil {
			return err
		}
		saved := slices.Clone(b.Bytes())
		if err := again.LoadShard(&b, shard); err != nil {
			return err
		}
		if err := again.SaveShard(&c, shard); err != nil {
			return err
		}
		if !bytes.Equal(saved, c.Bytes()) {
			return fmt.Errorf("shard %d saved again differs", shard)
		}
		var seen bytes.Buffer
		if err := p.table.SaveSeen(&seen, shard); err != nil {
			return err
		}
		if err := again.LoadSeen(&seen, shard); err != nil {
			return err
		}
	}
	if cfg := p.table.Config(); cfg.Evict == (Evict{}) { // the file has no stamps, so the changes are unknown
		if err := p.delta(); err != nil {
			return err
		}
	}
	again.removed = p.table.removed // removals are not saved in a file
	err := p.table.Close()
	p.table = again
	return err
}

// delta updates the replica to the state of the table.
func (p *pair) delta() error {
	for shard := range p.table.Shards() {
		var b bytes.Buffer
		if err := saveChanges(p.table, &b, shard, p.since); err != nil {
			return err
		}
		if now, err := p.replica.LoadDelta(&b, shard); err != nil || now != p.table.Now() {
			return fmt.Errorf("delta to step %d of %d: %w", now, p.table.Now(), err)
		}
	}
	// A change between steps belongs to the later one and may be reported twice.
	p.since = p.table.Now()
	p.replica.SetNow(p.since)
	return p.twin.differ(p.replica)
}

// TestTableEqualsItsTwinToTheBit: runs random operations on a table and its twin and compares
// all rows.
func TestTableEqualsItsTwinToTheBit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := drawConfig(rt)
		p := &pair{t: t, shards: 1 << rapid.IntRange(0, 3).Draw(rt, "log shards"), rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))}
		p.table, p.replica = p.open(cfg), p.open(Config{Name: cfg.Name, Parts: cfg.Parts, Values: cfg.Values})
		spec := p.open(cfg)
		p.twin = newTwin(spec)
		defer func() { p.table.Close(); p.replica.Close(); spec.Close() }()
		for range rapid.IntRange(1, 30).Draw(rt, "operations") {
			op := rapid.SampledFrom([]string{"apply", "apply", "apply", "read", "delete", "reload", "delta"}).Draw(rt, "op")
			err := map[string]func() error{"apply": p.apply, "read": p.read, "delete": p.delete, "reload": p.reload, "delta": p.delta}[op]()
			if err == nil {
				err = p.twin.differ(p.table)
			}
			if err != nil {
				rt.Fatalf("%s: %v", op, err)
			}
		}
	})
}

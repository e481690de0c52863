package sparse

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/optim"
)

// plainConfig describes one table of one part. Its rows are initially zero, and a step subtracts
// the gradient.
func plainConfig(dim int) Config {
	return Config{Shards: 8, Tables: []Table{{Name: "x", Parts: []Part{
		{Name: "deep", Dim: dim, Rule: optim.Rule{Kind: "sgd", LearningRate: 1}, Init: Init{Kind: "zero"}},
	}}}}
}

// oneBag returns a batch of one bag.
func oneBag(keys ...uint64) []Bags {
	return []Bags{{Values: keys, Offsets: []int32{0, int32(len(keys))}}}
}

// set sets all values of the row of each key, on a store of one rank.
func set(t *testing.T, s *Store, rows map[uint64]float32) {
	t.Helper()
	for key, v := range rows {
		step(t, s, oneBag(key), []float32{-v}, Step{N: 1, Scale: 1, Rate: 1})
	}
}

func step(t *testing.T, s *Store, bags []Bags, dy []float32, at Step) {
	t.Helper()
	l := s.NewLookup()
	fatal.If(t, s.Pull(l, bags, true))
	l.PoolGrad(0, 0, dy, s.cfg.Tables[bags[0].Table].Parts[0].Dim)
	fatal.If(t, s.Push(l))
	fatal.If(t, s.Apply(at))
}

func open(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(Local{}, cfg)
	fatal.If(t, err)
	return s
}

// read returns the values of one key without side effects.
func read(t *testing.T, s *Store, key uint64) []float32 {
	t.Helper()
	l := s.NewLookup()
	fatal.If(t, s.Pull(l, oneBag(key), false))
	dst := make([]float32, s.cfg.Tables[0].Parts[0].Dim)
	l.Pool(0, 0, dst, len(dst), false)
	return dst
}

// TestPoolingByHand compares pooled values with values computed by hand, for every pooling, with
// and without weights.
func TestPoolingByHand(t *testing.T) {
	s := open(t, plainConfig(1))
	set(t, s, map[uint64]float32{0: 2, 7: 10, math.MaxUint64: -4})
	values := []uint64{0, 0, 7, math.MaxUint64} // key 0 occurs twice, so it counts twice
	for _, c := range []struct {
		pooling Pooling
		weights []float32
		want    float32
	}{
		{Sum, nil, 10}, {Mean, nil, 2.5}, {SqrtN, nil, 5},
		{Sum, []float32{1, 2, 3, 0}, 36}, {Mean, []float32{1, 2, 3, 0}, 6},
		{SqrtN, []float32{2, 0, 0, 0}, 2}, {SqrtN, []float32{1, 1, 1, 1}, 5},
		{Mean, []float32{0, 0, 0, 0}, 0}, {SqrtN, []float32{0, 0, 0, 0}, 0},
	} {
		b := Bags{Values: values, Offsets: []int32{0, 0, 4, 4}, Weights: c.weights, Pooling: c.pooling}
		l := s.NewLookup()
		fatal.If(t, s.Pull(l, []Bags{b}, false))
		got := []float32{9, 9, 9, 9, 9, 9}
		l.Pool(0, 0, got, 2, false)
		if want := []float32{0, 9, c.want, 9, 0, 9}; !slices.Equal(got, want) {
			t.Errorf("%v of weights %v: %v, want %v", c.pooling, c.weights, got, want)
		}
		l.Pool(0, 0, got, 2, true)
		if want := []float32{0, 9, 2 * c.want, 9, 0, 9}; !slices.Equal(got, want) {
			t.Errorf("%v of weights %v added: %v, want %v", c.pooling, c.weights, got, want)
		}
	}
}

// TestBagsMayBeReusedAfterPull: a Lookup keeps its own copy of the bags.
func TestBagsMayBeReusedAfterPull(t *testing.T) {
	s := open(t, plainConfig(1))
	set(t, s, map[uint64]float32{1: 1, 2: 2})
	b := Bags{Values: []uint64{1, 2}, Offsets: []int32{0, 1, 2}, Weights: []float32{3, 5}}
	l := s.NewLookup()
	fatal.If(t, s.Pull(l, []Bags{b}, false))
	clear(b.Values)
	clear(b.Offsets)
	clear(b.Weights)
	got := make([]float32, 2)
	l.Pool(0, 0, got, 1, false)
	if !slices.Equal(got, []float32{3, 10}) {
		t.Fatalf("pooled %v after the bags were overwritten", got)
	}
}

// TestReadingHasNoSideEffects: a pull with insert=false, or one that is not pushed, inserts no
// row.
func TestReadingHasNoSideEffects(t *testing.T) {
	cfg := plainConfig(3)
	cfg.Tables[0].Parts[0].Init = Init{Kind: "normal", Scale: 1}
	s := open(t, cfg)
	if got := read(t, s, 5); !slices.Equal(got, make([]float32, 3)) {
		t.Fatalf("an unknown key reads as %v", got)
	}
	if c := s.Counters(); c.RowsHeld != 0 || c.RowsInserted != 0 || c.MemoryBytes != 0 {
		t.Fatalf("reading left %+v", c)
	}
	l := s.NewLookup()
	if err := s.Pull(l, oneBag(5), true); err != nil { // pulled to train, but not pushed
		t.Fatal(err)
	}
	before := make([]float32, 3)
	if l.Pool(0, 0, before, 3, false); before[0] == 0 {
		t.Fatal("a new key is not trained from its initial row")
	}
	fatal.If(t, s.Apply(Step{N: 1, Scale: 1, Rate: 1}))
	if n := s.Counters().RowsHeld; n != 0 {
		t.Fatalf("a batch that was never pushed left %d rows", n)
	}
	step(t, s, oneBag(5), []float32{1, 1, 1}, Step{N: 1, Scale: 1, Rate: 1})
	after := read(t, s, 5)
	for i := range after {
		if after[i] != before[i]-1 {
			t.Fatalf("a gradient of 1 changed row %v to %v", before, after)
		}
	}
	if n := s.Rows(0); n != 1 {
		t.Fatalf("the store has %d rows, want 1", n)
	}
}

// TestTwoLookupsInFlight pulls batch 2 before batch 1 is applied. A key is new in both batches,
// and the second step must update the row that the first inserted.
func TestTwoLookupsInFlight(t *testing.T) {
	s := open(t, plainConfig(1))
	a, b := s.NewLookup(), s.NewLookup()
	for _, l := range []*Lookup{a, b} {
		fatal.If(t, s.Pull(l, oneBag(9), true))
	}
	for i, l := range []*Lookup{a, b} {
		l.PoolGrad(0, 0, []float32{float32(i + 1)}, 1)
		fatal.If(t, s.Push(l))
		fatal.If(t, s.Apply(Step{N: int64(i + 1), Scale: 1, Rate: 1}))
	}
	if v := read(t, s, 9)[0]; v != -3 || s.Rows(0) != 1 {
		t.Fatalf("value %v in %d rows, want -3 in one", v, s.Rows(0))
	}
}

// TestPushesAddUpUntilApply: the gradients of all pushes before an Apply are summed.
func TestPushesAddUpUntilApply(t *testing.T) {
	cfg := plainConfig(1)
	cfg.Tables[0].Parts[0].Rule = optim.Rule{Kind: "adagrad"}
	s, whole := open(t, cfg), open(t, cfg)
	for _, key := range []uint64{1, 2, 1} {
		l := s.NewLookup()
		fatal.If(t, s.Pull(l, oneBag(key), true))
		l.PoolGrad(0, 0, []float32{0.5}, 1)
		fatal.If(t, s.Push(l))
	}
	fatal.If(t, s.Apply(Step{N: 1, Scale: 1, Rate: 1}))
	step(t, whole, oneBag(1, 2, 1), []float32{0.5}, Step{N: 1, Scale: 1, Rate: 1})
	fatal.If(t, differ(records(s), records(whole), 0))
}

// TestPushedGradientsOutliveTheirLookup: staged gradients do not change when their Lookup is
// used for another pull.
func TestPushedGradientsOutliveTheirLookup(t *testing.T) {
	after := func(next []Bags) []float32 {
		s := open(t, plainConfig(2))
		l := s.NewLookup()
		fatal.If(t, s.Pull(l, oneBag(1, 2, 2), true))
		l.PoolGrad(0, 0, []float32{1, 3}, 2)
		fatal.If(t, s.Push(l))
		if next != nil {
			fatal.If(t, s.Pull(l, next, true))
			l.PoolGrad(0, 0, []float32{7, 5}, 2)
		}
		fatal.If(t, s.Apply(Step{N: 1, Scale: 1, Rate: 1, Clip: 1}))
		return append(read(t, s, 1), read(t, s, 2)...)
	}
	want := after(nil)
	for name, next := range map[string][]Bags{"the same": oneBag(1, 2, 2), "another": oneBag(2, 9, 8, 7)} {
		if got := after(next); !slices.Equal(got, want) {
			t.Errorf("after a pull of %s keys: %v, want %v", name, got, want)
		}
	}
}

// TestRankWithoutSamplesTakesPart: ranks without keys make the same calls as the others, and the
// step succeeds.
func TestRankWithoutSamplesTakesPart(t *testing.T) {
	for _, nothing := range [][]Bags{nil, {{Offsets: []int32{0}}}, {{}}} {
		onRanks(t, 3, plainConfig(2), func(s *Store) error {
			bags, l := nothing, s.NewLookup()
			if s.rank == 1 {
				bags = oneBag(1, 2, 3, 4, 5)
			}
			if err := s.Pull(l, bags, true); err != nil {
				return err
			}
			if s.rank == 1 {
				l.PoolGrad(0, 0, []float32{1, 1}, 2)
			} else if len(bags) > 0 {
				l.Pool(0, 0, nil, 2, false)
				l.PoolGrad(0, 0, nil, 2)
			}
			if err := s.Push(l); err != nil {
				return err
			}
			return s.Apply(Step{N: 1, Scale: 1, Rate: 1})
		})
	}
}

// TestBytesOnTheWire compares the counted bytes of each rank with their definition.
func TestBytesOnTheWire(t *testing.T) {
	const size, tables, steps = 3, 2, 4
	cfg := Config{Shards: 32, Tables: []Table{
		{Name: "a", Parts: []Part{{Name: "deep", Dim: 8}, {Name: "wide", Dim: 1}}},
		{Name: "b", Parts: []Part{{Name: "deep", Dim: 3}}},
	}}
	counters := make([]Counters, size)
	want := make([]Counters, size)
	onRanks(t, size, cfg, func(s *Store) error {
		rng, l := rand.New(rand.NewPCG(uint64(s.rank), 0)), s.NewLookup()
		for n := range steps {
			bags, w := []Bags{{Table: 0, Offsets: []int32{0}}, {Table: 1, Offsets: []int32{0}}, {Table: 0, Offsets: []int32{0}}}, &want[s.rank]
			seen := map[[2]uint64]bool{}
			for f := range bags {
				b := &bags[f]
				for range 50 {
					key := uint64(rng.IntN(60))
					b.Values = append(b.Values, key)
					b.Offsets = append(b.Offsets, int32(len(b.Values)))
					w.KeysPulled++
					if id := [2]uint64{uint64(b.Table), key}; !seen[id] {
						seen[id] = true
						w.UniqueKeys++
						table := cfg.Tables[b.Table].Name
						if owner := OwnerOf(ShardOf(Salt(table), key, 32), 32, size); owner != s.rank {
							width := int64(map[string]int{"a": 9, "b": 3}[table])
							w.RemoteUniqueKeys++
							w.KeyBytesSent += 8
							w.RowBytesReceived += 4 * width
							w.GradBytesSent += 4 * width
						}
					}
				}
			}
			w.CountBytesSent += 8 * (3 + tables) * (size - 1)
			if err := s.Pull(l, bags, true); err != nil {
				return err
			}
			if err := s.Push(l); err != nil {
				return err
			}
			if err := s.Apply(Step{N: int64(n + 1), Scale: 1, Rate: 1}); err != nil {
				return err
			}
		}
		counters[s.rank] = s.Counters()
		return nil
	})
	var sent, received, held, inserted int64
	for r, c := range counters {
		w := want[r]
		got := []int64{c.KeysPulled, c.UniqueKeys, c.RemoteUniqueKeys, c.KeyBytesSent, c.RowBytesReceived, c.GradBytesSent, c.CountBytesSent}
		exact := []int64{w.KeysPulled, w.UniqueKeys, w.RemoteUniqueKeys, w.KeyBytesSent, w.RowBytesReceived, w.GradBytesSent, w.CountBytesSent}
		if !slices.Equal(got, exact) || c.RemoteUniqueKeys == 0 {
			t.Errorf("rank %d counted %v, want %v", r, got, exact)
		}
		sent, received = sent+c.BytesSent(), received+bytesReceived(c)
		held, inserted = held+c.RowsHeld, inserted+c.RowsInserted
	}
	if sent != received {
		t.Errorf("%d bytes sent, %d received", sent, received)
	}
	if held != 120 || inserted != 120 {
		t.Errorf("%d rows, %d inserted, want 120", held, inserted)
	}
}

// TestHalfPrecisionHalvesTheBytes counts the bytes of rows and gradients with an odd number of
// values. The share of a table in a message is padded to 4 bytes.
func TestHalfPrecisionHalvesTheBytes(t *testing.T) {
	cfg := plainConfig(3)
	var rows, grads [2]int64
	for i, wire := range []Wire{{}, {Rows: BF16, Gradients: BF16}} {
		cfg.Tables[0].Wire = wire
		onRanks(t, 2, cfg, func(s *Store) error {
			l := s.NewLookup()
			if err := errors.Join(s.Pull(l, oneBag(1, 2, 3, 4, 5, 6, 7), true), s.Push(l)); err != nil {
				return err
			}
			if c := s.Counters(); s.rank == 0 {
				rows[i], grads[i] = c.RowBytesReceived/c.RemoteUniqueKeys, c.GradBytesSent/c.RemoteUniqueKeys
				if pad := c.GradBytesSent % 4; pad != 0 {
					return fmt.Errorf("%d bytes of gradients are not a multiple of 4", c.GradBytesSent)
				}
			}
			return nil
		})
	}
	if rows != [2]int64{12, 6} || grads != [2]int64{12, 6} {
		t.Errorf("bytes of a row %v, of a gradient %v, want 12 and 6", rows, grads)
	}
	cfg.Tables[0].Wire = Wire{Rows: 9}
	if err := cfg.validate(); err == nil || !strings.Contains(err.Error(), `table 0 ("x"): wire: precision 9`) {
		t.Errorf("an invalid wire format: %v", err)
	}
}

// TestRoundingKeepsWhatIsNotFinite: rounding to bfloat16 keeps infinities and NaNs.
func TestRoundingKeepsWhatIsNotFinite(t *testing.T) {
	inf, nan := float32(math.Inf(1)), math.Float32frombits(0x7f800001)
	x := []float32{inf, -inf, nan, math.MaxFloat32}
	BF16.round(x)
	if x[0] != inf || x[1] != -inf || x[2] == x[2] || x[3] != inf {
		t.Fatalf("rounded to %v", x)
	}
}

// TestNonFiniteNamesTableAndKey: a NaN or an infinity is reported with its table and key, and
// Apply changes no row.
func TestNonFiniteNamesTableAndKey(t *testing.T) {
	nan := float32(math.NaN())
	cfg := plainConfig(2)
	cfg.Tables = append(cfg.Tables, cfg.Tables[0])
	cfg.Tables[1].Name = "y"
	s := open(t, cfg)
	bags := []Bags{{Table: 0, Values: []uint64{1}, Offsets: []int32{0, 1}}, {Table: 1, Values: []uint64{3, 4}, Offsets: []int32{0, 1, 2}}}
	l := s.NewLookup()
	if _, _, found := l.NonFinite(); found {
		t.Fatal("an empty Lookup holds a NaN")
	}
	fatal.If(t, s.Pull(l, bags, true))
	if table, key, found := l.NonFinite(); found {
		t.Fatalf("the error names table %q key %d, although all rows are finite", table, key)
	}
	l.PoolGrad(1, 0, []float32{0, 0, 0, nan}, 2)
	if table, key, found := l.NonFinite(); !found || table != "y" || key != 4 {
		t.Fatalf("the error names table %q key %d (%t), want y 4", table, key, found)
	}
	fatal.If(t, s.Push(l))
	err := s.Apply(Step{N: 3, Scale: 1, Rate: 1})
	var nf *nonFiniteError
	if !errors.As(err, &nf) || nf.Table != "y" || nf.Key != 4 {
		t.Fatalf("Apply returned %v", err)
	}
	if s.Rows(0)+s.Rows(1) != 0 {
		t.Fatal("an Apply that failed changed rows")
	}
	if n := s.GradNormSq(1); !math.IsNaN(n) {
		t.Fatalf("the norm of a NaN is %v", n)
	}
	fatal.If(t, s.tables[0].Put(1, []float32{0, float32(math.Inf(1))}))
	fatal.If(t, s.Pull(l, bags, false))
	if table, key, found := l.NonFinite(); !found || table != "x" || key != 1 {
		t.Fatalf("the error names table %q key %d (%t) for an infinite row, want x 1", table, key, found)
	}
}

// TestWhatComesAfterACheckIsChecked: an Apply that fails has checked the gradients of the tables
// before the fault. Gradients pushed afterwards are still checked by the next Apply.
func TestWhatComesAfterACheckIsChecked(t *testing.T) {
	cfg := plainConfig(2)
	cfg.Tables = append(cfg.Tables, cfg.Tables[0])
	cfg.Tables[1].Name = "y"
	s, at := open(t, cfg), Step{N: 1, Scale: 1, Rate: 1}
	bags := []Bags{{Table: 0, Values: []uint64{1}, Offsets: []int32{0, 1}}, {Table: 1, Values: []uint64{3}, Offsets: []int32{0, 1}}}
	push := func(x, y float32) {
		l := s.NewLookup()
		fatal.If(t, s.Pull(l, bags, true))
		l.PoolGrad(0, 0, []float32{x, 0}, 2)
		l.PoolGrad(1, 0, []float32{0, y}, 2)
		fatal.If(t, s.Push(l))
	}
	blames := func(table string) {
		t.Helper()
		var nf *nonFiniteError
		if err := s.Apply(at); !errors.As(err, &nf) || nf.Table != table || s.Rows(0)+s.Rows(1) != 0 {
			t.Fatalf("Apply returned %v, want an error that names table %q; %d and %d rows", err, table, s.Rows(0), s.Rows(1))
		}
	}
	nan := float32(math.NaN())
	push(1, nan)
	blames("y") // table x was checked and is finite
	push(nan, 1)
	blames("x")
	s.Replica().Discard()
	push(1, nan)
	blames("y")
	s.Replica().Discard()
	push(nan, 1)
	blames("x")
	s.Replica().Discard()
	push(1, 1)
	fatal.If(t, s.Apply(at))
}

// TestBadBagsAreNamed: invalid bags are rejected with an error that names the fault.
func TestBadBagsAreNamed(t *testing.T) {
	s := open(t, plainConfig(1))
	for want, b := range map[string]Bags{
		"table 4: there are 1":                          {Table: 4},
		"table -1: there are 1":                         {Table: -1},
		"pooling 9 is not sum, mean or sqrtn":           {Pooling: 9},
		"2 weights for 1 values":                        {Values: []uint64{1}, Offsets: []int32{0, 1}, Weights: []float32{1, 2}},
		"1 values and no offsets":                       {Values: []uint64{1}},
		"offsets[0] is 1, not 0":                        {Values: []uint64{1}, Offsets: []int32{1}},
		"offsets[2] is 1, below offsets[1], 2":          {Values: []uint64{1, 2}, Offsets: []int32{0, 2, 1}},
		"the last offset is 1, there are 2 values":      {Values: []uint64{1, 2}, Offsets: []int32{0, 1}},
		`feature 1 (table "x"): offsets[0] is 1, not 0`: {Offsets: []int32{1}},
	} {
		err := s.Pull(s.NewLookup(), []Bags{{}, b}, true)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "sparse: pull") {
			t.Errorf("%+v: %v, want %q", b, err, want)
		}
	}
}

// wantFault runs call on two ranks and requires the error of one of them to contain want.
func wantFault(t *testing.T, cfg func(rank int) Config, call func(s *Store, l *Lookup) error, want string) {
	t.Helper()
	g, errs := newGroup(2), make(chan error, 2)
	for r := range 2 {
		go func() {
			s, err := Open(member{g, r}, cfg(r))
			if err == nil {
				err = call(s, s.NewLookup())
			}
			if err != nil {
				g.fail(fmt.Errorf("aborted by rank %d", r))
			}
			errs <- err
		}()
	}
	first, second := <-errs, <-errs
	if all := fmt.Sprint(first, second); !strings.Contains(all, want) {
		t.Fatalf("errors %v and %v, want %q", first, second, want)
	}
}

// TestRanksOutOfStepAreNamed: ranks that make different calls, or have different configurations
// or limits, get an error that names the difference.
func TestRanksOutOfStepAreNamed(t *testing.T) {
	same := func(int) Config { return plainConfig(1) }
	limited := func(int) Config {
		cfg := plainConfig(1)
		cfg.MaxKeysPerExchange = 4
		return cfg
	}
	large := oneBag(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
	other := func(rank int) Config {
		cfg := plainConfig(1)
		cfg.Seed = uint64(rank)
		return cfg
	}
	for name, c := range map[string]struct {
		cfg  func(rank int) Config
		call func(s *Store, l *Lookup) error
		want string
	}{
		"configuration": {other, func(s *Store, l *Lookup) error { return s.Pull(l, nil, true) }, "has another configuration"},
		"kind":          {same, func(s *Store, l *Lookup) error { return s.Pull(l, nil, s.rank == 0) }, "every rank must make the same calls"},
		"number": {same, func(s *Store, l *Lookup) error {
			if s.rank == 1 {
				s.pulls++
			}
			return s.Pull(l, nil, true)
		}, "is at pull 2"},
		"step": {same, func(s *Store, l *Lookup) error {
			err := errors.Join(s.Pull(l, nil, true), s.Push(l))
			if s.rank == 0 {
				err = errors.Join(err, s.Apply(Step{N: 7}))
			}
			return errors.Join(err, s.Pull(l, nil, true))
		}, "every rank must call Apply for the same steps"},
		"limit of the receiver": {limited, func(s *Store, l *Lookup) error {
			if s.rank == 0 {
				return s.Pull(l, nil, true)
			}
			s.cfg.MaxKeysPerExchange = 1000
			return s.Pull(l, large, true)
		}, "rank 1 announces"},
		"limit of the sender": {limited, func(s *Store, l *Lookup) error { return s.Pull(l, large, true) }, "raise MaxKeysPerExchange"},
	} {
		t.Run(name, func(t *testing.T) { wantFault(t, c.cfg, c.call, c.want) })
	}
}

// TestCallsOutOfOrderAreNamed: calls in a wrong order and invalid steps are rejected with the
// reason.
func TestCallsOutOfOrderAreNamed(t *testing.T) {
	for want, call := range map[string]func(s *Store, l *Lookup) error{
		"nothing has been pulled": func(s *Store, l *Lookup) error { return s.Push(l) },
		"insert=false":            func(s *Store, l *Lookup) error { return errors.Join(s.Pull(l, nil, false), s.Push(l)) },
		"pushed already":          func(s *Store, l *Lookup) error { return errors.Join(s.Pull(l, nil, true), s.Push(l), s.Push(l)) },
		"reset after the pull": func(s *Store, l *Lookup) error {
			err := s.Pull(l, nil, true)
			s.Reset()
			return errors.Join(err, s.Push(l))
		},
		"step 0: steps count from 1": func(s *Store, _ *Lookup) error { return s.Apply(Step{Scale: 1, Rate: 1}) },
		"rate NaN":                   func(s *Store, _ *Lookup) error { return s.Apply(Step{N: 1, Rate: math.NaN()}) },
		"clip +Inf":                  func(s *Store, _ *Lookup) error { return s.Apply(Step{N: 1, Clip: float32(math.Inf(1))}) },
	} {
		t.Run(want, func(t *testing.T) {
			wantFault(t, func(int) Config { return plainConfig(1) }, call, want)
		})
	}
}

// TestLostPeerEndsEveryCall: if a rank is lost at any exchange, each rank's call returns the
// error.
func TestLostPeerEndsEveryCall(t *testing.T) {
	lost := errors.New("rank 2 is lost")
	for at := range 8 {
		errs := together(3, plainConfig(2), func(s *Store) error {
			calls := &dying{Exchanger: s.link.ex, left: at, rank: 2, err: lost}
			s.link = newLink(calls)
			l := s.NewLookup()
			for n := int64(1); n <= 2; n++ {
				if err := s.Pull(l, oneBag(1, 2, 3), true); err != nil {
					return err
				}
				if err := s.Push(l); err != nil {
					return err
				}
				if err := s.Apply(Step{N: n, Scale: 1, Rate: 1}); err != nil {
					return err
				}
			}
			return nil
		})
		for r, err := range errs {
			if !errors.Is(err, lost) || !strings.Contains(err.Error(), fmt.Sprintf("rank %d of 3", r)) {
				t.Errorf("lost at exchange %d: error of rank %d: %v", at, r, err)
			}
		}
	}
}

// dying is an Exchanger that fails after some exchanges.
type dying struct {
	Exchanger
	left, rank int
	err        error
}

func (d *dying) tick() error {
	if d.Rank() == d.rank {
		if d.left == 0 {
			return d.err
		}
		d.left--
	}
	return nil
}

func (d *dying) AllToAll(send, recv []int64) error {
	if err := d.tick(); err != nil {
		return err
	}
	return d.Exchanger.AllToAll(send, recv)
}

func (d *dying) AllToAllV(send []byte, sc []int, recv []byte, rc []int) error {
	if err := d.tick(); err != nil {
		return err
	}
	return d.Exchanger.AllToAllV(send, sc, recv, rc)
}

// TestWrongProgramsPanic: calls that only a wrong program makes panic with a message that names
// the fault.
func TestWrongProgramsPanic(t *testing.T) {
	s, other, closed := open(t, plainConfig(4)), open(t, plainConfig(4)), open(t, plainConfig(4))
	fatal.If(t, closed.Close())
	pull := func(insert bool) *Lookup {
		l := s.NewLookup()
		fatal.If(t, s.Pull(l, []Bags{{Values: []uint64{1, 2}, Offsets: []int32{0, 1, 2}}}, insert))
		return l
	}
	for name, f := range map[string]func(){
		"before the pull":       func() { s.NewLookup().Pool(0, 0, nil, 4, false) },
		"no such feature":       func() { pull(true).Pool(1, 0, make([]float32, 8), 4, false) },
		"no such part":          func() { pull(true).Pool(0, 1, make([]float32, 8), 4, false) },
		"short destination":     func() { pull(true).Pool(0, 0, make([]float32, 7), 4, false) },
		"short stride":          func() { pull(true).Pool(0, 0, make([]float32, 8), 3, false) },
		"gradient of a reading": func() { pull(false).PoolGrad(0, 0, make([]float32, 8), 4) },
		"Pull of another store": func() { _ = other.Pull(pull(true), nil, true) },
		"Push of another store": func() { _ = other.Push(pull(true)) },
		"Pull after Close":      func() { _ = closed.Pull(closed.NewLookup(), nil, true) },
		"of no store: Pull":     func() { _ = s.Pull(new(Lookup), nil, true) },
		"of no store: Push":     func() { _ = s.Push(new(Lookup)) },
		"of no store: nil":      func() { _ = s.Pull(nil, nil, false) },
	} {
		func() {
			defer func() {
				r := fmt.Sprint(recover())
				if !strings.HasPrefix(r, "sparse: ") || strings.HasPrefix(name, "of no store") != strings.HasSuffix(r, "Store.NewLookup makes one") {
					t.Errorf("%s: recovered %s", name, r)
				}
			}()
			f()
		}()
	}
}

// TestFailedPullLeavesNothingToPool: after a failed pull, its Lookup cannot be pushed.
func TestFailedPullLeavesNothingToPool(t *testing.T) {
	s := open(t, plainConfig(1))
	l := s.NewLookup()
	fatal.If(t, s.Pull(l, oneBag(1), true))
	if err := s.Pull(l, []Bags{{Table: 9}}, true); err == nil {
		t.Fatal("a bad batch was pulled")
	}
	if err := s.Push(l); err == nil {
		t.Fatal("a failed pull was pushed")
	}
}

// lying is an Exchanger whose peer, rank 1, announces the given counts.
type lying struct {
	Exchanger
	counts []int64
}

func (lying) Size() int { return 2 }

func (x lying) AllToAll(send, recv []int64) error {
	half := len(send) / 2
	copy(recv, send)
	copy(recv[half+announceWords:], x.counts)
	return nil
}

// TestAnnouncedCountsAreNotBelieved: negative and excessive counts from a peer are rejected with
// its rank.
func TestAnnouncedCountsAreNotBelieved(t *testing.T) {
	cfg := plainConfig(1)
	cfg.MaxKeysPerExchange = 10
	cfg.Tables = append(cfg.Tables, cfg.Tables[0])
	cfg.Tables[1].Name = "y"
	for want, counts := range map[string][]int64{
		`announces -1 keys of table "x"`:                  {-1, 0},
		`announces 9223372036854775807 keys of table "y"`: {0, math.MaxInt64},
		"announces 12 keys, at most 10":                   {6, 6},
	} {
		s, err := Open(lying{Local{}, counts}, cfg)
		fatal.If(t, err)
		if err := s.Pull(s.NewLookup(), nil, true); err == nil || !strings.Contains(err.Error(), "rank 1 "+want) {
			t.Errorf("counts %v: %v, want %q", counts, err, want)
		}
	}
}

// TestRowsOfOnePullAreBounded: a pull of more values than the limit is rejected.
func TestRowsOfOnePullAreBounded(t *testing.T) {
	s := open(t, plainConfig(maxDim))
	l := s.NewLookup()
	l.want.counts[0] = 1 << 21
	l.want.layout(s)
	if err := l.placeRows(); err == nil || !strings.Contains(err.Error(), "make the batch smaller") {
		t.Fatalf("a pull of 2³³ values: %v", err)
	}
}

package sparse_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/collective/shm"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse"
)

// exchange describes what BenchmarkExchange measures.
type exchange struct {
	keys, dim, domain, fields int
	zipf                      float64
	time                      time.Duration // spent on each path
}

var exchanged = func() *exchange {
	o := new(exchange)
	flag.IntVar(&o.keys, "keys", 32<<10, "BenchmarkExchange: `KEYS` of a rank's batch")
	flag.IntVar(&o.dim, "dim", 16, "BenchmarkExchange: `VALUES` of a row")
	flag.IntVar(&o.domain, "domain", 1_000_000, "BenchmarkExchange: distinct `KEYS` that can be drawn")
	flag.IntVar(&o.fields, "fields", 1, "BenchmarkExchange: `FIELDS` that share the domain")
	flag.Float64Var(&o.zipf, "zipf", 1.05, "BenchmarkExchange: `EXPONENT` of the keys' distribution, above 1")
	flag.DurationVar(&o.time, "time", 500*time.Millisecond, "BenchmarkExchange: `DURATION` of measuring either way")
	return o
}()

// BenchmarkExchange measures the pull and the push of a batch by package sparse. It compares
// them, in alternation, with an exchange of the same keys, rows and gradients by all-to-all
// calls that copy, as in message-passing libraries. With a ratio above 1, package sparse is
// faster. The operation wire exchanges only keys, rows and gradients: it does not deduplicate
// keys or look up rows. Without a launcher the benchmark measures two goroutines over shared
// memory:
//
//	go test -run '^$' -bench Exchange -benchtime 1x ./sparse
//
// The ranks of a launcher are processes:
//
//	go test -c -o exchange.test ./sparse
//	wdlrun -np 2 ./exchange.test -test.run '^$' -test.bench Exchange -test.benchtime 1x -keys 65536
func BenchmarkExchange(b *testing.B) {
	emit := func(l line) {
		b.ReportMetric(l.us, l.op+"-us")
		b.ReportMetric(l.copying/l.us, l.op+"-ratio")
		b.ReportMetric(float64(l.remote), "remote-keys")
	}
	for range b.N {
		var err error
		if os.Getenv("WDLRUN_SIZE") != "" {
			err = member.Run(b.Context(), func(_ context.Context, m *member.Member) error { return exchanged.run(m.Comm, emit) })
		} else {
			err = together(b, emit)
		}
		fatal.If(b, err)
	}
	b.ReportMetric(0, "ns/op")
}

// together measures two ranks that are goroutines.
func together(b *testing.B, emit func(line)) error {
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for r := range errs {
		wg.Go(func() {
			l, err := shm.Listen(shm.Config{Rank: r, Size: len(errs), Key: make([]byte, shm.KeySize)})
			if err != nil {
				errs[r] = err
				return
			}
			tr, err := l.Connect(b.Context())
			if err != nil {
				errs[r] = err
				return
			}
			defer tr.Close()
			errs[r] = exchanged.run(collective.New(tr), emit)
		})
	}
	wg.Wait()
	return errs[0]
}

// TestExchangeSendsWhatItSays compares the bytes sent for a few keys with the number of keys.
func TestExchangeSendsWhatItSays(t *testing.T) {
	for _, np := range []int{1, 3} {
		o := exchange{keys: 500, dim: 3, domain: 100_000, fields: 1, zipf: 1.05, time: time.Millisecond}
		var lines []line
		fatal.If(t, mem.Run(np, 1, func(c *collective.Comm) error { return o.run(c, func(l line) { lines = append(lines, l) }) }))
		if len(lines) != 4 {
			t.Fatalf("%d ranks: %d lines", np, len(lines))
		}
		for i, op := range []string{"pull", "push", "both", "wire"} {
			if l := lines[i]; l.op != op || !(l.us > 0) || !(l.copying > 0) || (l.remote > 0) != (np > 1) {
				t.Errorf("implausible result: %+v", l)
			}
		}
		if got, want := lines[1].bytes, 4*3*lines[1].remote; got != want {
			t.Errorf("%d ranks: a push of %d keys sends %d bytes, want %d", np, lines[1].remote, got, want)
		}
		if got, own := lines[3].bytes, (8+4*3)*lines[3].remote; got < own || (got-own)%(4*3) != 0 { // the rest are rows that other ranks request
			t.Errorf("%d ranks: an exchange of %d keys sends %d bytes, of its own keys and gradients %d", np, lines[3].remote, got, own)
		}
	}
}

// line is the result of rank 0 for one operation. Times are medians over equal batches, in
// microseconds per call.
type line struct {
	op          string  // pull, push, both, or wire: keys, rows and gradients alone
	remote      int64   // distinct keys of a batch that other ranks own
	bytes       int64   // payload that this rank sends
	us, copying float64 // time with windows that are read in place; time with AllToAllV and ordinary memory
}

// copying hides the optional methods of an Exchanger, so that all data is copied.
type copying struct{ sparse.Exchanger }

// path is one way of exchanging.
type path struct {
	store      *sparse.Store
	lookup     *sparse.Lookup
	pull, push []float64 // µs
	steps      int64
	before     sparse.Counters
}

func newPath(ex sparse.Exchanger, o exchange) (*path, error) {
	s, err := sparse.Open(ex, sparse.Config{Tables: []sparse.Table{{Name: "x", Parts: []sparse.Part{
		{Name: "deep", Dim: o.dim, Rule: optim.Rule{Kind: "sgd"}, Init: sparse.Init{Kind: "zero"}},
	}}}})
	if err != nil {
		return nil, err
	}
	return &path{store: s, lookup: s.NewLookup()}, nil
}

// step trains one step and times its pull and push.
func (p *path) step(bags []sparse.Bags) error {
	p.steps++
	t0 := time.Now()
	if err := p.store.Pull(p.lookup, bags, true); err != nil {
		return err
	}
	t1 := time.Now()
	if err := p.store.Push(p.lookup); err != nil {
		return err
	}
	t2 := time.Now()
	p.pull, p.push = append(p.pull, us(t1.Sub(t0))), append(p.push, us(t2.Sub(t1)))
	return p.store.Apply(sparse.Step{N: p.steps, Scale: 1, Rate: 1})
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// run measures on every rank of c. emit is called with the lines of rank 0.
func (o exchange) run(c *collective.Comm, emit func(line)) error {
	var paths [2]*path
	for i, x := range []sparse.Exchanger{c, copying{c}} {
		p, err := newPath(x, o)
		if err != nil {
			return err
		}
		defer p.store.Close()
		paths[i] = p
	}
	batch := o.draw(c.Rank())
	if err := alternate(c, o, batch, paths); err != nil {
		return err
	}
	if c.Rank() == 0 {
		report(c.Size(), o, paths, emit)
	}
	return runWire(c, o, batch, emit)
}

// draw returns the keys of a rank's batch. The fields take turns, and each draws keys by Zipf's
// law from its own range of keys.
func (o exchange) draw(rank int) []uint64 {
	share := uint64(o.domain / o.fields)
	zipf := rand.NewZipf(rand.New(rand.NewPCG(uint64(rank), 1)), o.zipf, 1, share-1)
	keys := make([]uint64, o.keys)
	for i := range keys {
		keys[i] = uint64(i%o.fields)*share + zipf.Uint64()
	}
	return keys
}

const warm = 3 // steps in which windows and tables grow

// alternate runs batches on both paths in alternation until rank 0 announces the end.
func alternate(c *collective.Comm, o exchange, batch []uint64, paths [2]*path) error {
	bags := []sparse.Bags{{Values: batch, Offsets: make([]int32, len(batch)+1)}}
	for i := range bags[0].Offsets {
		bags[0].Offsets[i] = int32(i)
	}
	begin := time.Time{}
	for n := 0; ; n++ {
		for i := range paths {
			if err := paths[(n+i)%2].step(bags); err != nil {
				return err
			}
		}
		if n+1 == warm {
			for _, p := range paths {
				p.pull, p.push, p.before = nil, nil, p.store.Counters()
			}
			begin = time.Now()
		}
		more := []int64{0}
		if n+1 < warm || time.Since(begin) < 2*o.time {
			more[0] = 1
		}
		if err := collective.Broadcast(c, more, 0); err != nil {
			return err
		}
		if more[0] == 0 && n+1 > warm {
			return nil
		}
	}
}

func report(np int, o exchange, paths [2]*path, emit func(line)) {
	n := int64(len(paths[0].pull))
	after, before := paths[0].store.Counters(), paths[0].before
	pulled := after.BytesSent() - after.GradBytesSent - before.BytesSent() + before.GradBytesSent
	pushed := after.GradBytesSent - before.GradBytesSent
	l := line{remote: (after.RemoteUniqueKeys - before.RemoteUniqueKeys) / n}
	for _, x := range []struct {
		op    string
		bytes int64
		of    func(p *path, i int) float64
	}{
		{"pull", pulled, func(p *path, i int) float64 { return p.pull[i] }},
		{"push", pushed, func(p *path, i int) float64 { return p.push[i] }},
		{"both", pulled + pushed, func(p *path, i int) float64 { return p.pull[i] + p.push[i] }},
	} {
		l.op, l.bytes, l.us, l.copying = x.op, x.bytes/n, median(paths[0], x.of), median(paths[1], x.of)
		emit(l)
	}
}

func median(p *path, of func(p *path, i int) float64) float64 {
	x := make([]float64, len(p.pull))
	for i := range x {
		x[i] = of(p, i)
	}
	slices.Sort(x)
	return x[len(x)/2]
}

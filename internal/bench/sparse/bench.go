// Package sparse measures the exchange of embeddings: the pull and the push of a
// batch by package sparse, beside the same keys, rows and gradients sent by the
// all-to-all calls that a library of message passing has, with a copy on either
// side. Both run in one process, in turns, so that their ratio says something
// where times do not.
package sparse

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse"
)

// Options say what to measure. The zero value is the default.
type Options struct {
	Keys   int           // of a rank's batch; 0: 32,768
	Dim    int           // 0: 16
	Zipf   float64       // exponent of the keys' distribution, above 1; 0: 1.05
	Domain uint64        // distinct keys that can be drawn; 0: 10⁶
	Fields int           // that share the domain, each with keys of its own; 0: 1
	Time   time.Duration // to spend on either path; 0: 500 ms
}

// Default returns o with zero options replaced.
func (o Options) Default() Options {
	if o.Keys == 0 {
		o.Keys = 32 << 10
	}
	if o.Dim == 0 {
		o.Dim = 16
	}
	if o.Zipf == 0 {
		o.Zipf = 1.05
	}
	if o.Domain == 0 {
		o.Domain = 1_000_000
	}
	if o.Fields == 0 {
		o.Fields = 1
	}
	if o.Time == 0 {
		o.Time = 500 * time.Millisecond
	}
	return o
}

// Validate returns every fault of o joined, nil if there is none.
func (o Options) Validate() error {
	o = o.Default()
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("internal/bench/sparse: "+format, args...))
	}
	if o.Keys < 1 || o.Keys > 1<<24 {
		fault("%d keys: give 1 to %d", o.Keys, 1<<24)
	}
	if o.Dim < 1 || o.Dim > sparse.MaxDim {
		fault("dim %d: give 1 to %d", o.Dim, sparse.MaxDim)
	}
	if !(o.Zipf > 1) || o.Zipf > 10 {
		fault("exponent %v: give more than 1, up to 10", o.Zipf)
	}
	if o.Fields < 1 || o.Fields > o.Keys {
		fault("%d fields: give 1 to %d, the keys", o.Fields, o.Keys)
	}
	if o.Domain < 2*uint64(o.Fields) || o.Domain > 1<<30 {
		fault("a domain of %d keys: give %d to %d", o.Domain, 2*o.Fields, 1<<30)
	}
	if o.Time < 0 || o.Time > time.Hour {
		fault("time %v: give up to an hour", o.Time)
	}
	return errors.Join(faults...)
}

// Line is what rank 0 has measured of one operation. Times are medians of whole
// calls, in microseconds, over batches that are all alike.
type Line struct {
	Op        string  `json:"op"` // pull, push, both, or wire: keys, rows and gradients alone
	NP        int     `json:"np"`
	Keys      int     `json:"keys"`   // of a batch
	Remote    int64   `json:"remote"` // of them distinct and of other ranks
	Dim       int     `json:"dim"`
	Bytes     int64   `json:"bytes"`      // payload this rank sends
	MedianUS  float64 `json:"median_us"`  // windows, read in place
	CopyingUS float64 `json:"copying_us"` // AllToAllV from and to ordinary memory
	Ratio     float64 `json:"ratio"`      // copying_us / median_us
	Batches   int     `json:"batches"`
}

func (l Line) String() string {
	return fmt.Sprintf("%-4s %d ranks, %d keys, %d distinct of others, dim %d, %9d bytes %9.1f us, copying %9.1f us, ratio %.2f",
		l.Op, l.NP, l.Keys, l.Remote, l.Dim, l.Bytes, l.MedianUS, l.CopyingUS, l.Ratio)
}

// copying hides what an Exchanger can do beyond copying.
type copying struct{ sparse.Exchanger }

// path is one way of exchanging.
type path struct {
	store      *sparse.Store
	lookup     *sparse.Lookup
	pull, push []float64 // µs
	steps      int64
	before     sparse.Counters
}

func newPath(ex sparse.Exchanger, o Options) (*path, error) {
	s, err := sparse.Open(ex, sparse.Config{Tables: []sparse.Table{{Name: "x", Parts: []sparse.Part{
		{Name: "deep", Dim: o.Dim, Rule: optim.Rule{Kind: "sgd"}, Init: sparse.Init{Kind: "zero"}},
	}}}})
	if err != nil {
		return nil, err
	}
	return &path{store: s, lookup: s.NewLookup()}, nil
}

// step is a step of training whose pull and push are timed.
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

// Run measures on every rank of c; emit gets the lines of rank 0.
func Run(c *collective.Comm, o Options, emit func(Line)) error {
	if err := o.Validate(); err != nil {
		return err
	}
	o = o.Default()
	var paths [2]*path
	for i, x := range []sparse.Exchanger{c, copying{c}} {
		p, err := newPath(x, o)
		if err != nil {
			return err
		}
		defer p.store.Close()
		paths[i] = p
	}
	batch := draw(c.Rank(), o)
	if err := alternate(c, o, batch, paths); err != nil {
		return err
	}
	if c.Rank() == 0 {
		report(c.Size(), o, paths, emit)
	}
	return runWire(c, o, batch, emit)
}

// draw returns the keys of a rank's batch: of each field in turn one that follows
// Zipf's law, in a stretch of the domain of its own.
func draw(rank int, o Options) []uint64 {
	share := o.Domain / uint64(o.Fields)
	zipf := rand.NewZipf(rand.New(rand.NewPCG(uint64(rank), 1)), o.Zipf, 1, share-1)
	keys := make([]uint64, o.Keys)
	for i := range keys {
		keys[i] = uint64(i%o.Fields)*share + zipf.Uint64()
	}
	return keys
}

const warm = 3 // windows and tables grow

// alternate runs batch after batch on either path until rank 0 says that the time
// is up.
func alternate(c *collective.Comm, o Options, batch []uint64, paths [2]*path) error {
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
		if n+1 < warm || time.Since(begin) < 2*o.Time {
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

func report(np int, o Options, paths [2]*path, emit func(Line)) {
	n := int64(len(paths[0].pull))
	after, before := paths[0].store.Counters(), paths[0].before
	pulled := after.BytesSent() - after.GradBytesSent - before.BytesSent() + before.GradBytesSent
	pushed := after.GradBytesSent - before.GradBytesSent
	line := Line{NP: np, Keys: o.Keys, Dim: o.Dim, Batches: int(n), Remote: (after.RemoteUniqueKeys - before.RemoteUniqueKeys) / n}
	for _, x := range []struct {
		op    string
		bytes int64
		of    func(p *path, i int) float64
	}{
		{"pull", pulled, func(p *path, i int) float64 { return p.pull[i] }},
		{"push", pushed, func(p *path, i int) float64 { return p.push[i] }},
		{"both", pulled + pushed, func(p *path, i int) float64 { return p.pull[i] + p.push[i] }},
	} {
		line.Op, line.Bytes = x.op, x.bytes/n
		line.MedianUS, line.CopyingUS = median(paths[0], x.of), median(paths[1], x.of)
		line.Ratio = line.CopyingUS / line.MedianUS
		emit(line)
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

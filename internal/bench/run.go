package bench

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/collective"
)

// Options describe what to measure. They are the same on all ranks.
type Options struct {
	Ops       []string      // nil: DefaultOps
	Sizes     []int         // bytes of a rank's buffer; nil: DefaultSizes
	Time      time.Duration // per operation, form and size; 0: DefaultTime
	Batch     time.Duration // approximate duration of a batch; 0: DefaultBatch
	Transport string        // name in the lines
	PlainOnly bool          // without the _use forms

	// Take is the algorithm of every call by messages that supports it. Windows means that
	// the cost model chooses.
	Take collective.Algorithm

	// Turns, if not nil, replaces Ops and their combinations with Sizes, so that other
	// programs can be measured by turns. It contains TurnBytes per line to measure: an
	// operation, _use or not, and at most the greatest of Sizes, such as "allreduce_use
	// 16384", padded with spaces. "end" or the end of the reader ends the measurement. All
	// ranks read the same content.
	Turns io.Reader
}

const (
	// DefaultTime is enough for a median of a hundred batches.
	DefaultTime = 150 * time.Millisecond
	// DefaultBatch is far above the resolution of the clock and the cost of a barrier, and
	// below a tick of the scheduler.
	DefaultBatch = time.Millisecond
	// MaxBytes is the largest size.
	MaxBytes = 1 << 32
	// maxTime bounds a mistyped time.
	maxTime = time.Hour
)

// DefaultSizes returns one float64, 1 KiB, 16 KiB, 256 KiB, the gradients of a
// small model (350,000 float32), 16 MiB and 64 MiB.
func DefaultSizes() []int {
	return []int{8, 1 << 10, 16 << 10, 256 << 10, 1_400_000, 16 << 20, 64 << 20}
}

// DefaultOps returns the main operations of a trainer.
func DefaultOps() []string { return []string{"barrier", "allreduce", "alltoallv"} }

// Ops returns the names of all operations.
func Ops() []string {
	var names []string
	for _, op := range operations() {
		names = append(names, op.name)
	}
	return names
}

// Validate returns all errors in o.
func (o Options) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("bench: options: "+format, args...)) }
	for _, name := range o.Ops {
		if _, ok := find(name); !ok {
			fault("there is no operation %q; there are %s", name, strings.Join(Ops(), ", "))
		}
	}
	for _, n := range o.Sizes {
		if n < 4 || n > MaxBytes {
			fault("size %d, want 4 to %d bytes", n, int64(MaxBytes))
		}
	}
	if o.Time < 0 || o.Time > maxTime {
		fault("time %v, want at most %v", o.Time, maxTime)
	}
	if o.Batch < 0 || o.Batch > maxTime {
		fault("batch %v, want at most %v", o.Batch, maxTime)
	}
	return errors.Join(errs...)
}

// withDefaults returns o with zero options replaced by their defaults.
func (o Options) withDefaults() Options {
	if o.Ops == nil {
		o.Ops = DefaultOps()
	}
	if o.Sizes == nil {
		o.Sizes = DefaultSizes()
	}
	if o.Time == 0 {
		o.Time = DefaultTime
	}
	if o.Batch == 0 {
		o.Batch = DefaultBatch
	}
	return o
}

// Run makes the measurements of o and passes each result to emit, on rank 0 only. It first
// measures the costs for the cost model, unless c has measured ones. Lines contain
// the choice and the prediction. If no operation has a buffer, Run allocates no memory and
// measures no costs, and lines have no prediction unless c has measured costs.
func Run(c *collective.Comm, o Options, emit func(Line)) error {
	if err := o.Validate(); err != nil {
		return err
	}
	o = o.withDefaults()
	most := o.maxBytes()
	b, err := newBuffers(c, most)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	costs := c.Costs()
	measured := costs != collective.DefaultCosts() // when the ranks joined
	if !measured && most > 0 {
		if costs, err = collective.Measure(c); err != nil {
			return fmt.Errorf("bench: measure the cost model: %w", err)
		}
		measured = true
	}
	l := &loop{c: c, time: o.Time, batch: o.Batch, predicts: measured}
	costs.Take = o.Take
	c.SetCosts(costs)
	if o.Turns != nil {
		return runTurns(l, b, o, most, emit)
	}
	for _, name := range o.Ops {
		op, _ := find(name)
		sizes := o.Sizes
		if !op.sized {
			sizes = []int{0}
		}
		for _, n := range sizes {
			if err := runOne(l, b, o, op, n, emit); err != nil {
				return failed(l, op, n, err)
			}
		}
	}
	return nil
}

// maxBytes returns the size of the largest buffer that an operation needs.
func (o Options) maxBytes() int {
	sized := o.Turns != nil || slices.ContainsFunc(o.Ops, func(name string) bool {
		op, _ := find(name)
		return op.sized
	})
	if !sized {
		return 0
	}
	return slices.Max(append([]int{0}, o.Sizes...))
}

// failed adds the measurement that failed to err.
func failed(l *loop, op operation, bytes int, err error) error {
	return fmt.Errorf("bench: %s of %d bytes on rank %d of %d: %w", op.name, bytes, l.c.Rank(), l.c.Size(), err)
}

// runOne checks and measures both forms of one operation at one size.
func runOne(l *loop, b *buffers, o Options, op operation, bytes int, emit func(Line)) error {
	call := op.prepare(b, bytes)
	if err := checkCall(call); err != nil {
		return err
	}
	for _, use := range []bool{false, true} {
		if use && (o.PlainOnly || !op.sized) {
			continue
		}
		if err := runForm(l, o, turn{op, use, bytes}, call, emit); err != nil {
			return err
		}
	}
	return nil
}

// checkCall makes one call on a known pattern.
func checkCall(x call) error {
	if x.check == nil {
		return nil
	}
	x.fill()
	if err := x.do(); err != nil {
		return err
	}
	if err := x.check(); err != nil {
		return err
	}
	clear(x.sent)
	clear(x.got)
	return nil
}

// runForm measures a call in one form.
func runForm(l *loop, o Options, t turn, x call, emit func(Line)) error {
	seconds, err := l.measure(x, t.use)
	if err != nil || l.c.Rank() != 0 {
		return err
	}
	name, np := t.op.name, l.c.Size()
	if t.use {
		name += "_use"
	}
	line := newLine(o.Transport, name, np, t.bytes, seconds, t.op.busFactor(np))
	algorithm, predicted := l.c.Choose(t.op.call, collective.Sum, collective.Float32, t.bytes)
	line.Algorithm = algorithm.String()
	if l.predicts {
		line.PredictedUS = predicted * 1e6
	}
	emit(line)
	return nil
}

// runTurns measures one line per turn.
func runTurns(l *loop, b *buffers, o Options, most int, emit func(Line)) error {
	checked := map[string]bool{}
	for {
		t, err := nextTurn(o.Turns, most)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		call := t.op.prepare(b, t.bytes)
		if key := fmt.Sprint(t.op.name, t.bytes); !checked[key] {
			if err := checkCall(call); err != nil {
				return failed(l, t.op, t.bytes, err)
			}
			checked[key] = true
		}
		if err := runForm(l, o, t, call, emit); err != nil {
			return failed(l, t.op, t.bytes, err)
		}
	}
}

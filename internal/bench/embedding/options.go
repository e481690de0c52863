package embedding

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/sparse/table"
)

// Options say what Run measures. The zero value is the default.
type Options struct {
	Ops   []string // of Ops; none: all
	Keys  int      // rows of the tables; 0: see DefaultKeys
	Dim   int      // of rows that are gathered; 0: 8
	Batch int      // keys that are made distinct; 0: 262,144
	Zipf  float64  // exponent of their distribution, above 1; 0: 1.05

	Begin    func(op string, n, of int) // is called before the n-th of all that is measured, from 1; may be nil
	Progress func()                     // is called every now and then while Run is at work; may be nil
}

// Ops lists what there is to measure.
func Ops() []string { return append([]string{"unique"}, TableOps()...) }

// TableOps lists those of them that measure a table.
func TableOps() []string { return append([]string{"hold", "find", "gather", "grow"}, UpdateRules()...) }

// Rows that are updated: those that a core's own cache holds, and at most so many, which
// no cache does.
const (
	cachedKeys = 4096
	updateKeys = 4 << 20
)

// maxKeys is what row numbers of 32 bits allow a table.
const maxKeys = 1 << 31

// Default returns o with zero options replaced.
func (o Options) Default() Options {
	if len(o.Ops) == 0 {
		o.Ops = Ops()
	}
	if o.Keys == 0 {
		o.Keys = DefaultKeys()
	}
	if o.Dim == 0 {
		o.Dim = 8
	}
	if o.Batch == 0 {
		o.Batch = 1 << 18
	}
	if o.Zipf == 0 {
		o.Zipf = 1.05
	}
	if o.Begin == nil {
		o.Begin = func(string, int, int) {}
	}
	if o.Progress == nil {
		o.Progress = func() {}
	}
	return o
}

// Validate returns every fault of o joined, nil if there is none.
func (o Options) Validate() error {
	o = o.Default()
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("internal/bench/embedding: "+format, args...))
	}
	for _, op := range o.Ops {
		if !slices.Contains(Ops(), op) {
			fault("there is no %q: give some of %s", op, strings.Join(Ops(), ", "))
		}
	}
	if o.Keys < batch || o.Keys > maxKeys {
		fault("%d keys: give %d to %d", o.Keys, batch, maxKeys)
	}
	if o.Dim < 1 || o.Dim > table.MaxDim {
		fault("dim %d: give 1 to %d", o.Dim, table.MaxDim)
	}
	if o.Batch < 1 || o.Batch > 1<<26 {
		fault("a batch of %d keys: give 1 to %d", o.Batch, 1<<26)
	}
	if !(o.Zipf > 1) || o.Zipf > 10 {
		fault("exponent %v: give more than 1, up to 10", o.Zipf)
	}
	if len(faults) == 0 {
		faults = append(faults, o.lacks(freeBytes()))
	}
	return errors.Join(faults...)
}

// lacks returns an error if what is measured would take more than the memory that is
// free, of which 0 says nothing: the kernel would end the process without a word.
func (o Options) lacks(free int64) error {
	each, most := int64(0), ""
	for _, op := range o.Ops {
		if b := keyBytes(op, o.Dim); b > each {
			each, most = b, op
		}
	}
	if need := each * int64(o.Keys); free > 0 && need > free {
		return fmt.Errorf("internal/bench/embedding: %d keys: %s takes some %.1f GiB, and %.1f GiB of memory are free: give at most %d keys, or leave %[2]s out",
			o.Keys, most, float64(need)/(1<<30), float64(free)/(1<<30), free/each)
	}
	return nil
}

// mapBytes is about what a Go map takes for a key while it grows, with what it has
// given up and the collector has not found yet, and a table of the shortest rows.
const mapBytes = 130

// keyBytes is about what measuring op takes for each key of a table with rows of dim
// values; 0 where that does not grow with them.
func keyBytes(op string, dim int) int64 {
	const index, stamp = 29, 4
	switch op {
	case "hold":
		return index + stamp + 4*int64(dim+1)
	case "gather":
		return index + stamp + 2*4*2*int64(dim) // values and state, twice
	case "find", "grow":
		return mapBytes
	}
	return 0
}

// DefaultKeys is how many keys' table and Go map fit a quarter of the memory that
// is free, at most 4 million, which no cache holds and which take seconds; 2²⁰ where
// it is not known.
func DefaultKeys() int {
	const most = 4_000_000
	free := freeBytes()
	if free == 0 {
		return 1 << 20
	}
	return int(min(max(free/4/mapBytes, batch), most))
}

// freeBytes is the memory that Linux says is available, elsewhere 0.
func freeBytes() int64 { return kernelSays("/proc/meminfo", "MemAvailable") }

// residentBytes is the memory of this process that Linux says is in use,
// elsewhere 0.
func residentBytes() int64 { return kernelSays("/proc/self/status", "VmRSS") }

// kernelSays returns a number of bytes from a file of lines "name: n kB", 0 if it
// is not there.
func kernelSays(file, name string) int64 {
	f, err := os.Open(file)
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var kib int64
		if n, _ := fmt.Sscanf(s.Text(), name+": %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

// Run measures what o asks for, in order.
func Run(o Options) (all []Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.Default()
	for i, op := range o.Ops {
		o.Begin(op, i+1, len(o.Ops))
		var r Result
		switch op {
		case "unique":
			r = Unique(o.Batch, o.Zipf)
		case "hold":
			r, err = Hold(o.Keys, o.Dim, "rowwise_adagrad", o.Progress)
		case "find":
			r, err = Find(o.Keys, o.Progress)
		case "gather":
			r, err = Gather(o.Keys, o.Dim, "adagrad", o.Progress)
		case "grow":
			r, err = Grow(o.Keys, o.Progress)
		default:
			if r, err = Update(cachedKeys, o.Dim, op, o.Progress); err == nil {
				all = append(all, r)
				r, err = Update(min(o.Keys, updateKeys), o.Dim, op, o.Progress)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("internal/bench/embedding: %s: %w", op, err)
		}
		all = append(all, r)
		o.Progress()
	}
	return all, nil
}

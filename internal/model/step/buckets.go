package step

import (
	"slices"
	"sync"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/dense"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/trace"
)

// buckets sums the dense gradients of all ranks, and the tail of the arena, in contiguous
// ranges of the arena. Backward finishes the last range first, so buckets are summed in
// that order. If ranks are connected by links, a goroutine sums each bucket during
// backward.
type buckets struct {
	comm   *collective.Comm
	grads  []float32
	bounds []int // descending, from len(grads) to 0, or to the argument of only: bucket i is grads[bounds[i+1]:bounds[i]]
	open   bool  // ready has an effect; modes that sum other gradients set it to false
	begun  int   // buckets of this step passed to the goroutine

	work chan int // nil: nothing is summed in the background
	done chan error
	gone sync.WaitGroup
	at   [][2]time.Time // by bucket: when the goroutine began and ended
	took time.Duration  // time of the goroutine in all steps
}

const (
	// bucketFloats is the least size of a bucket: 512 KiB. Each further bucket costs a
	// call, which is 2(P−1) messages by the ring; their cost must be small compared with
	// that of the bytes. A smaller arena is summed after backward: passing its buckets to
	// the goroutine cost a training on Adult (24,000 floats, np 2 over loopback) a few
	// percent more CPU time.
	bucketFloats = 128 << 10
	// maxBuckets is the approximate number of buckets of a large arena. The last bucket,
	// for which all ranks wait, may be an eighth as large as the others.
	maxBuckets = 4
)

// newBuckets divides the gradients of an arena into buckets.
func newBuckets(comm *collective.Comm, a *dense.Arena, c *config.Config, l layout.Layout) *buckets {
	background := apart(comm)
	s := &buckets{comm: comm, open: true, grads: a.Grads(), bounds: bucketBounds(a, c, l, background || comm.Size() > 2)}
	if background && len(s.grads) >= bucketFloats {
		s.begin()
	}
	return s
}

// apart reports whether ranks run on several hosts, so that links carry gradients while
// this rank computes. On one host the same cores would do both: with np 2 over loopback on
// 2 cores, sums in the background cost workload w1 6 % more CPU time, from more waiting and
// more cache misses. If the hosts are not known, apart returns true.
func apart(comm *collective.Comm) bool { return WorksAhead(comm) && !comm.OneHost() }

// only restricts the sums to grads[from:]. Devices sum the others.
func (s *buckets) only(from int) {
	s.close()
	s.bounds = []int{len(s.grads), from}
}

// begin starts the goroutine.
func (s *buckets) begin() {
	n := len(s.bounds) - 1
	s.work, s.done, s.at = make(chan int, n), make(chan error, n), make([][2]time.Time, n)
	s.gone.Go(func() {
		for i := range s.work {
			s.at[i][0] = time.Now()
			err := s.sum(i)
			s.at[i][1] = time.Now()
			s.done <- err
		}
	})
}

// bytes returns the size of bucket i, 0 if there are no other ranks.
func (s *buckets) bytes(i int) int64 {
	if s.comm.Size() == 1 {
		return 0
	}
	return 4 * int64(s.bounds[i]-s.bounds[i+1])
}

// sum sums bucket i over the ranks. It is collective.
func (s *buckets) sum(i int) error {
	return collective.AllReduce(s.comm, s.grads[s.bounds[i+1]:s.bounds[i]], collective.Sum)
}

// ready marks the gradients from index from on as final. The caller makes no other call on
// the channel until finish.
func (s *buckets) ready(from int) {
	if s == nil || !s.open || s.work == nil {
		return
	}
	for ; s.begun < len(s.bounds)-1 && s.bounds[s.begun+1] >= from; s.begun++ {
		s.work <- s.begun
	}
}

// finish waits for the goroutine and sums the remaining buckets itself.
func (s *buckets) finish(rec *trace.Recorder) (err error) {
	for i := range s.begun {
		if failed := <-s.done; err == nil {
			err = failed
		}
		from, to := s.at[i][0], s.at[i][1]
		s.took += to.Sub(from)
		rec.Background(trace.Sync, i+1, s.bytes(i), from, to)
	}
	for i := s.begun; i < len(s.bounds)-1 && err == nil; i++ {
		rec.Count(s.bytes(i), 0)
		err = s.sum(i)
	}
	s.begun = 0
	return err
}

// close ends the goroutine.
func (s *buckets) close() {
	if s != nil && s.work != nil {
		close(s.work)
		s.gone.Wait()
		s.work = nil
	}
}

// bucketBounds returns the bounds of the buckets: places where backward finishes gradients,
// which are before a layer and, in the first layer, before the columns of a feature. They
// depend on the model alone, so sums have the same order over links and in shared memory.
// Two ranks that sum after backward use one bucket, since a sum of two has only one order.
func bucketBounds(a *dense.Arena, c *config.Config, l layout.Layout, several bool) []int {
	total := len(a.Grads())
	bounds := []int{total}
	if several {
		least := max(bucketFloats, total/maxBuckets)
		ends := slices.DeleteFunc(finals(a, c, l), func(from int) bool { return from < least/8 })
		for i, from := range ends {
			size := bounds[len(bounds)-1] - from
			if size >= least || i == len(ends)-1 && size >= least/2 {
				bounds = append(bounds, from)
			}
		}
	}
	return append(bounds, 0)
}

// finals returns, in descending order, the indices from which on gradients become final
// together. It returns none with several threads, which add their gradients at the end, or
// with batch normalisation, which makes collective calls during backward.
func finals(a *dense.Arena, c *config.Config, l layout.Layout) (from []int) {
	if c.Train.Threads > 1 || c.Model.BatchNorm {
		return nil
	}
	at := len(a.Grads()) - len(a.Tail())
	params := a.Params()
	for i := len(params) - 1; i >= 0; i-- {
		p := params[i]
		at -= p.Rows * p.Cols
		if p.Name == firstWeight {
			for f := len(l.Features) - 1; f >= 0; f-- {
				if ft := l.Features[f]; ft.DeepPart >= 0 {
					from = append(from, at+ft.DeepCol*p.Cols)
				}
			}
		}
		if p.Decay {
			from = append(from, at)
		}
	}
	return from
}

// firstWeight is the parameter of the perceptron's first layer, whose rows are the
// columns of its input.
const firstWeight = "deep/linear0/weight"

// stops returns the columns of the first layer before which a bucket ends.
func (s *buckets) stops(a *dense.Arena) (cols []int) {
	at := 0
	for _, p := range a.Params() {
		n := p.Rows * p.Cols
		for i := len(s.bounds) - 1; i >= 0 && p.Name == firstWeight; i-- {
			if b := s.bounds[i]; b > at && b < at+n {
				cols = append(cols, (b-at)/p.Cols)
			}
		}
		at += n
	}
	return cols
}

// WorksAhead reports whether batches are prepared and pushed during the computation, which
// is done if ranks are connected by links. If all ranks share memory, the same cores would
// move the rows, and nothing is saved: on 2 cores with np 2, workload w1 takes 21.3 ms per
// step either way (bench step). docs/benchmarks.md shows the gain over links.
func WorksAhead(comm *collective.Comm) bool {
	shape := comm.Shape()
	return comm.Size() > 1 && (!shape.Windows || shape.Hosts > 1)
}

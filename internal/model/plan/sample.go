package plan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/wire"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// sample measures the demand of a part of the input for each table.
type sample struct {
	counter
	shards int
	tables []tableSample
	rows   int64
	read   []int64 // keys, by rank
	halves []int64 // samples after each step
}

type tableSample struct {
	demand sparse.Demand
	sums   float64
	total  *table.Set // distinct keys
	union  *table.Set // distinct keys of a step
	asked  []int64    // demand.Unique by shard
	growth []int64    // distinct keys after each step
}

func newSample(l layout.Layout, ranks, shards int) *sample {
	s := &sample{counter: newCounter(l, ranks), shards: shards, tables: make([]tableSample, len(l.Tables)), read: make([]int64, ranks)}
	for t := range s.tables {
		x, salt := &s.tables[t], sparse.Salt(l.Tables[t].Name)
		x.total, x.union = table.NewSet(salt, nil, 1), table.NewSet(salt, nil, 1)
		x.asked = make([]int64, shards)
	}
	return s
}

// add adds a global batch. Rank r would read rows bounds[r] to bounds[r+1].
func (s *sample) add(b *encode.Batch, bounds []int) {
	s.begin()
	for r := range s.ranks {
		s.addShare(r, s.count(b, bounds[r], bounds[r+1]))
	}
	s.end()
}

// begin begins a step.
func (s *sample) begin() {
	for t := range s.tables {
		s.tables[t].union.Reset()
		s.tables[t].demand.Steps++
	}
}

// addShare adds the share of a rank.
func (s *sample) addShare(rank int, c *share) {
	s.rows += c.rows
	s.read[rank] += c.values()
	for t := range s.tables {
		x, y := &s.tables[t], &c.tables[t]
		x.demand.Values, x.demand.Bags, x.sums = x.demand.Values+y.values, x.demand.Bags+y.bags, x.sums+y.sums
		x.demand.Unique += int64(len(y.keys))
		for _, key := range y.keys {
			x.asked[sparse.ShardOf(sparse.Salt(s.layout.Tables[t].Name), key, s.shards)]++
		}
		s.number(x.union, y.keys)
	}
}

// end ends the step.
func (s *sample) end() {
	s.halves = append(s.halves, s.rows)
	for t := range s.tables {
		x := &s.tables[t]
		x.demand.Union += int64(x.union.Len())
		s.number(x.total, x.union.Keys())
		x.growth = append(x.growth, int64(x.total.Len()))
	}
}

// grown returns the expected number of distinct keys of a table after the given number of
// samples. It uses Heaps' law, a power of the number of samples, with the exponent measured
// in the second half of the sample.
func (s *sample) grown(t int, samples int64) int64 {
	x, n := &s.tables[t], len(s.halves)
	if n == 0 {
		return 0
	}
	now, half := float64(x.growth[n-1]), n/2
	if samples <= s.rows || half == 0 || x.growth[half-1] == 0 || now == 0 {
		return int64(now)
	}
	power := math.Log(now/float64(x.growth[half-1])) / math.Log(float64(s.rows)/float64(s.halves[half-1]))
	return int64(now * math.Pow(float64(samples)/float64(s.rows), min(power, 1)))
}

// kept returns the largest expected number of rows of a table with the given number of
// distinct keys. With a limit, each shard keeps at most its share. Keys outside the sample
// are assumed to be distributed randomly over the shards.
func (s *sample) kept(t int, keys int64) int64 {
	limit := s.layout.Tables[t].Evict
	if limit.MaxRows == 0 {
		return keys
	}
	rows, unseen := 0.0, float64(keys-int64(s.tables[t].total.Len()))/float64(s.shards)
	held, _ := s.held(t)
	for shard, n := range held {
		rows += float64(n) + filled(unseen, float64(int64(limit.Share(shard, s.shards))-n))
	}
	return int64(math.Round(rows))
}

// filled returns the expected number of rows used of a capacity if the number of keys N is
// Poisson distributed with the given mean: E[min(N, capacity)]. For large means it uses the
// normal distribution.
func filled(mean, capacity float64) (rows float64) {
	if mean > 64 {
		dev := math.Sqrt(mean)
		z := (capacity - mean) / dev
		full := math.Erfc(z/math.Sqrt2) / 2
		return float64(mean*(1-full)) + float64(capacity*full) - dev*math.Exp(-z*z/2)/math.Sqrt(2*math.Pi)
	}
	p := math.Exp(-mean) // P(N = n)
	more := 1 - p        // P(N > n)
	for n := 0.0; n < capacity && more > 1e-12; n++ {
		rows += more
		p = float64(p * (mean / (n + 1)))
		more -= p
	}
	return rows
}

// readSteps reads the sample: the first steps of the first epoch. It calls step after each of
// them, if step is not nil.
func (s *sample) readSteps(ctx context.Context, c *config.Config, e *encode.Encoder, d *data.Dataset, step func()) error {
	r, err := data.NewReader(d, e, data.ReaderConfig{
		GlobalBatch: c.Train.Global(s.ranks), Seed: c.Train.Seed, Shuffle: *c.Train.Shuffle, Select: data.Train, Split: s.ranks,
	})
	if err != nil {
		return err
	}
	defer r.Close()
	for !isEnough(len(s.halves), slices.Max(s.read), s.ranks) {
		b, err := r.Next(ctx)
		if errors.Is(err, io.EOF) || err == nil && b == nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("plan: %w", err)
		}
		s.add(b, r.Parts(b))
		r.Recycle(b)
		if step != nil {
			step()
		}
	}
	return nil
}

// held returns the number of rows for the sample's distinct keys in each shard, and in total.
func (s *sample) held(t int) (rows []int64, total int64) {
	tb := s.layout.Tables[t]
	rows = make([]int64, s.shards)
	for _, key := range s.tables[t].total.Keys() {
		rows[sparse.ShardOf(sparse.Salt(tb.Name), key, s.shards)]++
	}
	for shard, n := range rows {
		if tb.Evict.MaxRows > 0 {
			rows[shard] = min(n, int64(tb.Evict.Share(shard, s.shards)))
		}
		total += rows[shard]
	}
	return rows, total
}

// merge adds the counts of all ranks: the steps that all of them have counted.
func (s *sample) merge(counts [][]byte) error {
	if len(counts) != s.ranks {
		return fmt.Errorf("plan: counts of %d ranks, there are %d", len(counts), s.ranks)
	}
	readers, steps := make([]wire.Reader, s.ranks), int64(sampleSteps)
	for i, b := range counts {
		readers[i].B = b
		steps = min(steps, readers[i].Count())
	}
	x := share{tables: make([]tableShare, len(s.tables))}
	for range steps {
		s.begin()
		for i := range readers {
			r := &readers[i]
			if x.decode(r); r.Err != nil {
				return fmt.Errorf("plan: counts of rank %d: %w", i, r.Err)
			}
			s.addShare(i, &x)
		}
		s.end()
	}
	return nil
}

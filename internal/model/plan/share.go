package plan

import (
	"encoding/binary"
	"math"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/wire"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/sparse/table"
)

const (
	// sampleValues is about the largest number of keys in a sample, over all ranks. It bounds the
	// time to some tenths of a second.
	sampleValues = 1 << 20
	// sampleSteps is the number of steps in a sample: the demand of steps varies by a few
	// percent.
	sampleSteps = 64
)

// isEnough reports whether a rank has read its part of a sample.
func isEnough(steps int, values int64, ranks int) bool {
	return steps >= sampleSteps || values*int64(ranks) >= sampleValues
}

// share is what a rank reads in a step.
type share struct {
	rows   int64
	tables []tableShare
}

type tableShare struct {
	values, bags int64
	sums         float64  // expected number of other owners, over all bags
	keys         []uint64 // distinct
}

// values returns the number of keys read.
func (x *share) values() (n int64) {
	for i := range x.tables {
		n += x.tables[i].values
	}
	return n
}

// counter counts shares.
type counter struct {
	layout layout.Layout
	ranks  int
	own    []*table.Set // by table: distinct keys of the share
	share  share
	ids    []uint32
}

func newCounter(l layout.Layout, ranks int) counter {
	c := counter{layout: l, ranks: ranks, share: share{tables: make([]tableShare, len(l.Tables))}}
	for _, t := range l.Tables {
		c.own = append(c.own, table.NewSet(sparse.Salt(t.Name), nil, 1))
	}
	return c
}

// number adds keys to a set.
func (c *counter) number(set *table.Set, keys []uint64) {
	if len(keys) > len(c.ids) {
		c.ids = make([]uint32, 2*len(keys))
	}
	set.Add(keys, c.ids[:len(keys)])
}

// count returns the share of rows lo to hi of a batch, valid until the next call.
func (c *counter) count(b *encode.Batch, lo, hi int) *share {
	c.share.rows = int64(hi - lo)
	for t := range c.own {
		c.own[t].Reset()
		c.share.tables[t] = tableShare{}
	}
	for f, ft := range c.layout.Features {
		x, j := &c.share.tables[ft.Table], b.Sparse[f]
		keys := j.Values[j.Offsets[lo]:j.Offsets[hi]]
		c.number(c.own[ft.Table], keys)
		x.values, x.bags = x.values+int64(len(keys)), x.bags+int64(hi-lo)
		for i := lo; i < hi; i++ {
			x.sums += c.otherOwners(int(j.Offsets[i+1] - j.Offsets[i]))
		}
	}
	for t := range c.own {
		c.share.tables[t].keys = c.own[t].Keys()
	}
	return &c.share
}

// otherOwners returns the expected number of other ranks that own at least one of n keys.
func (c *counter) otherOwners(n int) float64 {
	if c.ranks == 1 {
		return 0
	}
	p := float64(c.ranks)
	return float64((p - 1) * (1 - math.Pow(1-1/p, float64(n))))
}

// Sampler counts one rank's part of a sample while the rank reads its first batches, so that no
// rank reads the parts of others.
type Sampler struct {
	counter
	steps  int
	values int64
	counts []byte
}

// NewSampler returns a Sampler of a rank of a training.
func NewSampler(c *config.Config, e *encode.Encoder, ranks int) *Sampler {
	return &Sampler{counter: newCounter(layout.New(c, e.Sparse(), e.Dense()), ranks)}
}

// Add adds the rank's next batch. It returns false if no further ones are needed.
func (s *Sampler) Add(b *encode.Batch) (more bool) {
	x := s.count(b, 0, b.Rows)
	s.steps, s.values = s.steps+1, s.values+x.values()
	s.counts = x.append(s.counts)
	return !isEnough(s.steps, s.values, s.ranks)
}

// Counts returns the counts for Given.Counts of the rank that plans.
func (s *Sampler) Counts() []byte {
	return append(binary.AppendUvarint(nil, uint64(s.steps)), s.counts...)
}

// append appends the message of a share.
func (x *share) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(x.rows))
	for i := range x.tables {
		t := &x.tables[i]
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(t.values)), uint64(t.bags))
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(t.sums))
		b = binary.AppendUvarint(b, uint64(len(t.keys)))
		for _, key := range t.keys {
			b = binary.LittleEndian.AppendUint64(b, key)
		}
	}
	return b
}

// decode reads the message of a share. It uses the memory of x.
func (x *share) decode(r *wire.Reader) {
	x.rows = r.Count()
	for i := range x.tables {
		t := &x.tables[i]
		t.values, t.bags, t.sums = r.Count(), r.Count(), math.Float64frombits(r.Uint64())
		n := r.Length(math.MaxInt32, 8)
		if t.keys = t.keys[:0]; int64(n) > t.values || !(t.sums >= 0 && t.sums <= math.MaxInt64) {
			r.Fail("%d keys of %d values, %g sums", n, t.values, t.sums)
			return
		}
		for range n {
			t.keys = append(t.keys, r.Uint64())
		}
	}
}

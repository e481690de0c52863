package plan

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/wire"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/sparse"
)

var sharedTables = layout.Layout{Tables: []sparse.Table{{Name: "x"}, {Name: "y"}}, Features: []layout.Feature{{}, {Table: 1}, {}}}

// randomBatch returns rows with lists of keys.
func randomBatch(rng *rand.Rand, rows int) *encode.Batch {
	b := &encode.Batch{Rows: rows}
	for range sharedTables.Features {
		j := encode.Jagged{Offsets: []int32{0}}
		for range rows {
			for range rng.IntN(4) {
				j.Values = append(j.Values, rng.Uint64N(90))
			}
			j.Offsets = append(j.Offsets, int32(len(j.Values)))
		}
		b.Sparse = append(b.Sparse, j)
	}
	return b
}

// cut returns rows lo to hi of a batch.
func cut(b *encode.Batch, lo, hi int) *encode.Batch {
	part := &encode.Batch{Rows: hi - lo}
	for _, j := range b.Sparse {
		x := encode.Jagged{Values: j.Values[j.Offsets[lo]:j.Offsets[hi]]}
		for _, at := range j.Offsets[lo : hi+1] {
			x.Offsets = append(x.Offsets, at-j.Offsets[lo])
		}
		part.Sparse = append(part.Sparse, x)
	}
	return part
}

// TestRanksCountASample: counts of the ranks give the sample of one reader, as far as all ranks
// have counted.
func TestRanksCountASample(t *testing.T) {
	const ranks = 3
	rng := rand.New(rand.NewPCG(1, 2))
	want, got := newSample(sharedTables, ranks, layout.Shards), newSample(sharedTables, ranks, layout.Shards)
	var each [ranks]Sampler
	for r := range each {
		each[r].counter = newCounter(sharedTables, ranks)
	}
	var counts [][]byte
	for step := range 5 {
		b, bounds := randomBatch(rng, 40), []int{0, 11, 11, 40}
		if step < 4 {
			want.add(b, bounds)
		}
		for r := range each {
			if step < 4 || r > 0 {
				each[r].Add(cut(b, bounds[r], bounds[r+1]))
			}
		}
	}
	for r := range each {
		counts = append(counts, each[r].Counts())
	}
	if err := got.merge(counts); err != nil {
		t.Fatal(err)
	}
	if got.rows != 160 || !reflect.DeepEqual(got.halves, want.halves) || !reflect.DeepEqual(got.read, want.read) {
		t.Errorf("%d rows, %v, read %v; want %v, %v", got.rows, got.halves, got.read, want.halves, want.read)
	}
	for i := range want.tables {
		x, y := &got.tables[i], &want.tables[i]
		if x.demand != y.demand || x.sums != y.sums || !reflect.DeepEqual(x.asked, y.asked) || !reflect.DeepEqual(x.growth, y.growth) || !reflect.DeepEqual(x.total.Keys(), y.total.Keys()) {
			t.Errorf("table %d: %+v, want %+v", i, x, y)
		}
	}
	counts[1] = counts[1][:len(counts[1])/2]
	if err := newSample(sharedTables, ranks, layout.Shards).merge(counts); err == nil || !strings.Contains(err.Error(), "counts of rank 1: ") {
		t.Errorf("half of the counts of rank 1: %v", err)
	}
}

// TestSampleIsBounded: a rank counts its part of the largest sample.
func TestSampleIsBounded(t *testing.T) {
	for _, c := range []struct {
		steps  int
		values int64
		ranks  int
		want   bool
	}{
		{sampleSteps - 1, 0, 1, false}, {sampleSteps, 0, 1, true}, {1, sampleValues - 1, 1, false}, {1, sampleValues, 1, true},
		{1, sampleValues / 4, 4, true}, {1, sampleValues/4 - 1, 4, false},
	} {
		if got := isEnough(c.steps, c.values, c.ranks); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// FuzzShare: the message of a rank is rejected, or is a share that encodes to the same values.
func FuzzShare(f *testing.F) {
	c := newCounter(sharedTables, 2)
	f.Add(c.count(randomBatch(rand.New(rand.NewPCG(1, 2)), 9), 0, 9).append(nil))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, in []byte) {
		x, y := share{tables: make([]tableShare, 2)}, share{tables: make([]tableShare, 2)}
		r := wire.Reader{B: in}
		if x.decode(&r); r.Err != nil {
			return
		}
		again := wire.Reader{B: x.append(nil)}
		if y.decode(&again); again.Err != nil || len(again.B) != 0 || !reflect.DeepEqual(x, y) {
			t.Errorf("%+v is read as %+v: %v", x, y, again.Err)
		}
	})
}

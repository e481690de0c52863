package step

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/trace"
)

// bucketConfig returns a model whose dense gradients form several buckets.
func bucketConfig(kind config.Model) (*config.Config, []encode.SparseColumn) {
	c, columns := kindConfig(kind)
	c.Model.Activation = "relu"
	c.Model.Hidden = []int{6000, 24, 5600}
	c.Train.ClipNorm = 0.5
	return c, columns
}

// bucketed returns the dense parameters of one rank after some steps, summed as sums
// specifies. The first features of the batches have repeated keys.
func bucketed(t *testing.T, comm *collective.Comm, c *config.Config, columns []encode.SparseColumn, chunk int, sums func(*Trainer)) ([]float32, error) {
	tr, err := NewTrainer(comm, trace.New(0), c, layout.New(c, columns, []string{"d0", "d1"}), Tables{})
	if err != nil {
		return nil, err
	}
	defer tr.Close()
	if !c.Model.BatchNorm {
		tr.model.chunk = chunk
	}
	sums(tr)
	for n := range 3 {
		rows := 60
		if n == 1 && comm.Rank() == 1 {
			rows = 0
		}
		c := coming(int64(n+1), repeating(uint64(n*comm.Size()+comm.Rank()), rows), nil)
		c.Requests.Save = n == 2 && comm.Rank() == 0
		out, err := tr.Step(c)
		if err != nil {
			return nil, err
		}
		if n == 0 && out.Rows != int64(60*comm.Size()) || out.Save != (n == 2) {
			t.Errorf("step %d: %+v", n+1, out)
		}
	}
	if _, took := tr.Buckets(); tr.model.sums.work != nil && took == 0 {
		t.Errorf("rank %d: nothing was summed during the pass", comm.Rank())
	}
	return slices.Clone(tr.model.arena.Values()), nil
}

// TestBucketsSumTheSame: buckets summed during backward or after it have the same bits, and
// on two ranks the bits of a single sum, for all models.
func TestBucketsSumTheSame(t *testing.T) {
	behind := func(tr *Trainer) { tr.model.sums.close() }
	whole := func(tr *Trainer) {
		s := tr.model.sums
		s.close()
		s.bounds = []int{len(s.grads), 0}
	}
	during := func(tr *Trainer) {
		if s, by := tr.model.sums, tr.model.distinct.layer; s.work == nil || by != nil && len(by.Workers) == 1 && len(by.Stops) == 0 {
			t.Errorf("nothing is summed during the pass, or the first layer is not cut: %v", s.bounds)
		}
	}
	for _, kind := range kinds {
		for _, x := range []struct{ size, threads int }{{2, 2}, {3, 1}, {2, 1}}[:patient.Size(2, 3)] {
			t.Run(fmt.Sprintf("%s%s, %+v", kind.Kind, kind.Cross.Structure, x), func(t *testing.T) {
				onRanks(t, x.size, func(comm *collective.Comm) error {
					c, columns := bucketConfig(kind)
					c.Train.Threads = x.threads
					got, err := bucketedSo(t, comm, c, columns, during, behind, whole)
					if err != nil {
						return err
					}
					if !slices.Equal(got[0], got[1]) {
						t.Errorf("rank %d: during and behind differ", comm.Rank())
					}
					if x.size == 2 && !slices.Equal(got[0], got[2]) {
						t.Errorf("rank %d: buckets and a sum of all differ", comm.Rank())
					}
					return nil
				})
			})
		}
	}
}

// bucketedSo calls bucketed with each of sums.
func bucketedSo(t *testing.T, comm *collective.Comm, c *config.Config, columns []encode.SparseColumn, sums ...func(*Trainer)) (got [][]float32, err error) {
	for _, s := range sums {
		values, err := bucketed(t, comm, c, columns, 16, s)
		if err != nil {
			return nil, err
		}
		got = append(got, values)
	}
	return got, nil
}

// TestBatchNormSumsBehind: with batch normalisation, which makes collective calls, buckets
// are summed after backward.
func TestBatchNormSumsBehind(t *testing.T) {
	onRanks(t, 3, func(comm *collective.Comm) error {
		c, columns := bucketConfig(kinds[0])
		c.Model.BatchNorm = true
		got, err := bucketedSo(t, comm, c, columns, func(tr *Trainer) {
			if s := tr.model.sums; s.work == nil || len(s.bounds) != 2 {
				t.Errorf("buckets end at %v", s.bounds)
			}
		}, func(tr *Trainer) { tr.model.sums.close() })
		if err == nil && !slices.Equal(got[0], got[1]) {
			t.Errorf("rank %d: during and behind differ", comm.Rank())
		}
		return err
	})
}

// TestBuckets: buckets end where backward finishes gradients, they cover the arena, and the
// last one is small.
func TestBuckets(t *testing.T) {
	onRanks(t, 2, func(comm *collective.Comm) error {
		c, columns := bucketConfig(kinds[0])
		tr, err := NewTrainer(comm, trace.New(0), c, layout.New(c, columns, []string{"d0", "d1"}), Tables{})
		if err != nil {
			return err
		}
		defer tr.Close()
		floats, _ := tr.Buckets()
		t.Log(floats)
		sum := 0
		for _, n := range floats {
			sum += n
		}
		if sum != len(tr.model.arena.Grads()) || len(floats) < 3 {
			t.Errorf("buckets of %v floats, %d in all", floats, len(tr.model.arena.Grads()))
		}
		for _, n := range floats[:len(floats)-1] {
			if n < bucketFloats/2 {
				t.Errorf("buckets of %v floats", floats)
			}
		}
		return nil
	})
}

// TestBucketsAllocateNothing: on two ranks connected by links, a step allocates nothing in
// the steady state.
func TestBucketsAllocateNothing(t *testing.T) {
	const steps = 10
	onRanks(t, 2, func(comm *collective.Comm) error {
		c, columns := bucketConfig(kinds[0])
		tr, err := NewTrainer(comm, trace.New(16), c, layout.New(c, columns, []string{"d0", "d1"}), Tables{})
		if err != nil {
			return err
		}
		defer tr.Close()
		b := repeating(1, 60)
		next := coming(0, b, b)
		step := func() {
			next.N++
			if _, stepErr := tr.Step(next); stepErr != nil {
				err = stepErr
			}
		}
		for range 4 {
			step()
		}
		if err := collective.Barrier(comm); err != nil {
			return err
		}
		if comm.Rank() > 0 {
			for range steps + 1 { // as many as AllocsPerRun makes
				step()
			}
			return errors.Join(err, collective.Barrier(comm)) // AllocsPerRun also counts the allocations of closing
		}
		if allocs := testing.AllocsPerRun(steps, step); allocs != 0 {
			t.Errorf("%v allocations a step", allocs)
		}
		return errors.Join(err, collective.Barrier(comm))
	})
}

// TestBytesOfSums: the timeline has the bytes of all sums of dense gradients. One rank sums
// nothing.
func TestBytesOfSums(t *testing.T) {
	for _, size := range []int{1, 2} {
		onRanks(t, size, func(comm *collective.Comm) error {
			c, columns := bucketConfig(kinds[0])
			rec := trace.New(16)
			tr, err := NewTrainer(comm, rec, c, layout.New(c, columns, []string{"d0", "d1"}), Tables{})
			if err != nil {
				return err
			}
			defer tr.Close()
			if _, err := tr.Step(coming(1, repeating(1, 60), nil)); err != nil {
				return err
			}
			rec.Enter(trace.Wait)
			var b bytes.Buffer
			if err := rec.WriteChrome(&b, trace.Source{Size: size, Rank: comm.Rank()}); err != nil {
				return err
			}
			var events []struct {
				Name string
				Args struct{ Bytes int }
			}
			if err := json.Unmarshal(b.Bytes(), &events); err != nil {
				return err
			}
			sum, sums := 0, 0
			for _, e := range events {
				if strings.HasPrefix(e.Name, "sync") {
					sum, sums = sum+e.Args.Bytes, sums+1
				}
			}
			if want := 4 * len(tr.model.arena.Grads()) * (size - 1); sum != want || size > 1 && sums < 3 {
				t.Errorf("%d ranks: %d bytes in %d sums, want %d", size, sum, sums, want)
			}
			return nil
		})
	}
}

// TestOtherBucketsAreNamed: if a rank sums another bucket, the error describes both sides.
func TestOtherBucketsAreNamed(t *testing.T) {
	err := mem.Run(2, 2, func(comm *collective.Comm) error {
		c, columns := bucketConfig(kinds[0])
		_, err := bucketed(t, comm, c, columns, 16, func(tr *Trainer) {
			if comm.Rank() == 1 {
				s := tr.model.sums
				s.bounds[1] -= 24
			}
		})
		return err
	})
	var m *collective.MismatchError
	if !errors.As(err, &m) || m.Own.Tag.Count == m.Peer.Tag.Count || m.Own.Tag.Call != collective.CallAllReduce {
		t.Errorf("%v, want both lengths", err)
	}
}

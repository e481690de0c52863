package sparse_test

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/collective/shm"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
	"github.com/wdlrun/wdlrun/internal/testkit/patient"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse"
)

// overMem and overShm connect ranks that are goroutines, with two channels each.
func overMem(size int) ([]collective.Transport, error) {
	var all []collective.Transport
	for _, t := range mem.New(size, 2) {
		all = append(all, t)
	}
	return all, nil
}

func overShm(size int) ([]collective.Transport, error) {
	all, errs := make([]collective.Transport, size), make([]error, size)
	key := make([]byte, shm.KeySize)
	crand.Read(key) // the key is part of the names of the group's sockets
	var wg sync.WaitGroup
	for r := range size {
		wg.Go(func() {
			l, err := shm.Listen(shm.Config{Rank: r, Size: size, Key: key, Timeout: patient.Longest})
			if err != nil {
				errs[r] = err
				return
			}
			all[r], errs[r] = l.Connect(context.Background())
		})
	}
	wg.Wait()
	return all, errors.Join(errs...)
}

// trainOver trains with large batches, prepared on the second channel, and returns the files
// that all ranks save.
func trainOver(t *testing.T, size int, connect func(size int) ([]collective.Transport, error)) []string {
	t.Helper()
	ts, err := connect(size)
	if errors.Is(err, shm.ErrUnavailable) {
		t.Skip(err)
	}
	fatal.If(t, err)
	files, errs := make([][]string, size), make([]error, size)
	var wg sync.WaitGroup
	for r := range size {
		wg.Go(func() {
			defer ts[r].Close()
			c := collective.New(ts[r])
			if files[r], errs[r] = trainRank(c); errs[r] != nil {
				c.Abort(errs[r])
			}
		})
	}
	wg.Wait()
	fatal.If(t, errors.Join(errs...))
	return slices.Sorted(slices.Values(slices.Concat(files...)))
}

func trainRank(c *collective.Comm) (files []string, err error) {
	const dim, keys = 8, 6000 // 48 kB of keys and 192 kB of rows per batch
	part := func(name string, dim int) sparse.Part {
		return sparse.Part{Name: name, Dim: dim, Rule: optim.Rule{Kind: "adam"}}
	}
	s, err := sparse.Open(c, sparse.Config{
		Tables: []sparse.Table{{Name: "a", Parts: []sparse.Part{part("deep", dim)}}, {Name: "b", Parts: []sparse.Part{part("deep", dim), part("wide", 1)}, Wire: sparse.Wire{Rows: sparse.BF16, Gradients: sparse.BF16}}},
	})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := s.Pipeline().Start(c.Channel(1)); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(uint64(c.Rank()), 1))
	draw := func() (bags []sparse.Bags) {
		for t := range 2 {
			b := sparse.Bags{Table: t, Offsets: []int32{0}}
			for range keys {
				b.Values = append(b.Values, rng.Uint64N(2*keys))
				b.Offsets = append(b.Offsets, int32(len(b.Values)))
			}
			bags = append(bags, b)
		}
		return bags
	}
	grad := make([]float32, keys*dim)
	for i := range grad {
		grad[i] = float32(rng.NormFloat64())
	}
	now, next := s.NewLookup(), s.NewLookup()
	if err := s.Pipeline().Prepare(now, draw(), true); err != nil {
		return nil, err
	}
	for n := range int64(4) {
		if err := errors.Join(s.Pipeline().Complete(now), s.Pipeline().Prepare(next, draw(), true)); err != nil {
			return nil, err
		}
		now.PoolGrad(0, 0, grad, dim)
		now.PoolGrad(1, 0, grad, dim)
		if err := errors.Join(s.Push(now), s.Apply(sparse.Step{N: n + 1, Scale: 1, Rate: 1})); err != nil {
			return nil, err
		}
		now, next = next, now
	}
	if err := s.Pipeline().Complete(now); err != nil {
		return nil, err
	}
	for _, section := range s.Files().Sections() {
		var b bytes.Buffer
		if err := s.Files().SaveShard(&b, section.Table, section.Shard); err != nil {
			return nil, err
		}
		files = append(files, section.Name+"\n"+b.String())
	}
	return files, nil
}

// TestWindowsAndMessagesGiveTheSameBits compares shared memory, where parts are read in place,
// with messages, where they are copied.
func TestWindowsAndMessagesGiveTheSameBits(t *testing.T) {
	for _, size := range []int{2, 3} {
		t.Run(fmt.Sprint("P=", size), func(t *testing.T) {
			want, got := trainOver(t, size, overMem), trainOver(t, size, overShm)
			if len(want) == 0 || !slices.Equal(got, want) {
				t.Fatalf("%d shards saved over shared memory and %d over messages differ", len(got), len(want))
			}
		})
	}
}

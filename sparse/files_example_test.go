package sparse_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse"
)

// Two ranks train a table and save it; three ranks load it. Here the ranks are goroutines.
func ExampleFiles() {
	root, err := os.MkdirTemp("", "checkpoints")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)

	ranks(2, func(c *collective.Comm, s *sparse.Store) error {
		l := s.NewLookup()
		titles := []sparse.Bags{{Values: []uint64{10, 20, uint64(30 + c.Rank())}, Offsets: []int32{0, 3}}}
		if err := s.Pull(l, titles, true); err != nil {
			return err
		}
		l.PoolGrad(0, 0, []float32{-1, -2}, 2)
		if err := s.Push(l); err != nil {
			return err
		}
		if err := s.Apply(sparse.Step{N: 1, Scale: 1.0 / 2}); err != nil {
			return err
		}
		return save(c, s, root, 1)
	})
	ranks(3, func(c *collective.Comm, s *sparse.Store) error {
		step, err := load(s, root)
		if err != nil {
			return err
		}
		rows := []int64{int64(s.Rows(0))}
		if err := collective.AllReduce(c, rows, collective.Sum); err != nil {
			return err
		}
		l, y := s.NewLookup(), make([]float32, 2)
		if err := s.Pull(l, []sparse.Bags{{Values: []uint64{10}, Offsets: []int32{0, 1}}}, false); err != nil {
			return err
		}
		if c.Rank() == 0 {
			l.Pool(0, 0, y, 2, false)
			fmt.Printf("step %d: %d rows, word 10 is %v\n", step, rows[0], y)
		}
		return nil
	})
	// Output: step 1: 4 rows, word 10 is [1 2]
}

// save writes the shards of all ranks to one checkpoint, each rank to its own part. Every rank
// calls it.
func save(c *collective.Comm, s *sparse.Store, root string, step int64) error {
	w, err := checkpoint.Create(root, step, c.Rank(), c.Size())
	if err != nil {
		return err
	}
	defer w.Discard()
	for _, x := range s.Files().Sections() {
		write := func(w io.Writer) error { return s.Files().SaveShard(w, x.Table, x.Shard) }
		if err := w.Section(x.Name, write); err != nil {
			return err
		}
	}
	// The replicated dense layers are a section of one rank: w.Section("dense", arena.Save).
	part, err := w.Close()
	if err != nil {
		return err
	}
	entry, err := json.Marshal(part)
	if err != nil {
		return err
	}
	all, err := collective.AllGatherBytes(c, entry, 1<<16)
	if err != nil {
		return err
	}
	if c.Rank() == 0 {
		m := checkpoint.Manifest{Step: step, Files: make([]checkpoint.File, len(all))}
		for i, b := range all {
			if err := json.Unmarshal(b, &m.Files[i]); err != nil {
				return err
			}
		}
		if err := checkpoint.Commit(root, m); err != nil {
			return err
		}
	}
	return collective.Barrier(c) // the checkpoint exists
}

// load reads the shards that this rank owns from the newest checkpoint and returns its step. The
// store must be empty and its tables configured as in the checkpoint.
func load(s *sparse.Store, root string) (int64, error) {
	c, _, err := checkpoint.Latest(root)
	if err != nil {
		return 0, err
	}
	for i, t := range s.Config().Tables {
		for _, shard := range s.Shards().Owned() {
			name := sparse.SectionName(t.Name, shard)
			if !c.Has(name) { // the shard has no rows
				continue
			}
			read := func(r io.Reader) error { return s.Files().LoadShard(r, i, shard) }
			if err := c.Read(name, read); err != nil {
				return 0, err
			}
		}
		s.Files().SetNow(i, c.Step())
	}
	return c.Step(), nil
}

// ranks runs f on n ranks, each with an empty store.
func ranks(n int, f func(*collective.Comm, *sparse.Store) error) {
	config := sparse.Config{Tables: []sparse.Table{{Name: "word", Parts: []sparse.Part{{
		Name: "embedding", Dim: 2, Rule: optim.Rule{Kind: "sgd", LearningRate: 1}, Init: sparse.Init{Kind: "zero"},
	}}}}}
	err := mem.Run(n, 1, func(c *collective.Comm) error {
		s, err := sparse.Open(c, config)
		if err != nil {
			return err
		}
		defer s.Close()
		return f(c, s)
	})
	if err != nil {
		log.Print(err)
	}
}

package sparse_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse"
)

// Two ranks share a table of words. Each rank computes with its current titles while the keys of
// its next titles are in transit. Every word is pulled towards 1. Here the ranks are goroutines.
// In a job they are processes, and member provides each with its Comm.
func ExamplePipeline_Prepare() {
	err := mem.Run(2, 2, func(c *collective.Comm) error {
		store, err := sparse.Open(c, sparse.Config{Tables: []sparse.Table{{
			Name: "word", Parts: []sparse.Part{{Name: "weight", Dim: 1, Rule: optim.Rule{Kind: "sgd", LearningRate: 0.5}}},
		}}})
		if err != nil {
			return err
		}
		defer store.Close()
		if err := store.Pipeline().Start(c.Channel(1)); err != nil {
			return err
		}
		titles := [2][]sparse.Bags{ // two titles a batch, of two words and of one
			{{Values: []uint64{10, 20, 30}, Offsets: []int32{0, 2, 3}, Pooling: sparse.Mean}},
			{{Values: []uint64{30, 40, 50}, Offsets: []int32{0, 2, 3}, Pooling: sparse.Mean}},
		}[c.Rank()]
		now, next, y := store.NewLookup(), store.NewLookup(), make([]float32, 2)
		if err := store.Pipeline().Prepare(now, titles, true); err != nil {
			return err
		}
		for step := int64(1); step <= 12; step++ {
			if err := errors.Join(store.Pipeline().Complete(now), store.Pipeline().Prepare(next, titles, true)); err != nil {
				return err
			}
			now.Pool(0, 0, y, 1, false)
			if c.Rank() == 0 && step%4 == 0 {
				fmt.Printf("step %2d: %.2f\n", step, y)
			}
			now.PoolGrad(0, 0, []float32{y[0] - 1, y[1] - 1}, 1)
			if err := errors.Join(store.Pipeline().Push(now), store.Apply(sparse.Step{N: step})); err != nil {
				return err
			}
			now, next = next, now
		}
		if err := store.Pipeline().Complete(now); err != nil { // each Prepare needs a Complete
			return err
		}
		rows := []int64{int64(store.Rows(0))}
		if err := collective.AllReduce(c, rows, collective.Sum); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Println(rows[0], "words on two ranks")
		}
		return nil
	})
	if err != nil {
		log.Print(err)
	}
	// Output:
	// step  4: [0.58 1.08]
	// step  8: [0.87 1.08]
	// step 12: [0.96 1.06]
	// 5 words on two ranks
}

// Place assigns the shards to ranks by measured load. An empty store adopts the plan before
// a checkpoint is loaded.
func ExamplePlace() {
	loads := []sparse.ShardLoad{{WireBytes: 900, Rows: 9}, {WireBytes: 500, Rows: 5}, {WireBytes: 300, Rows: 3}, {WireBytes: 100, Rows: 1}}
	plan := sparse.Place(loads, []int32{0, 0, 1, 1}, 2)
	fmt.Println(plan.Owner, plan.Moved, "moved")

	store, err := sparse.Open(sparse.Local{}, sparse.Config{Shards: 4, Tables: []sparse.Table{{
		Name: "user", Parts: []sparse.Part{{Name: "embedding", Dim: 2}},
	}}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(store.Shards().Place(plan.Owner))
	// Output:
	// [0 1 1 1] 1 moved
	// sparse: place: rank 0 of 1: shard 1 is given to rank 1
}

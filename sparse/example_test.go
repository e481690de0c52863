package sparse_test

import (
	"bytes"
	"fmt"
	"io"
	"log"

	"github.com/wdlrun/wdlrun/optim"
	"github.com/wdlrun/wdlrun/sparse"
)

// Matrix factorisation: the affinity of a user and an item is the dot product of their
// embeddings. Here one rank trains the model. With more ranks only the Exchanger changes.
func ExampleStore() {
	const dim = 4
	embedding := []sparse.Part{{
		Name: "embedding", Dim: dim,
		Rule: optim.Rule{Kind: "adagrad", LearningRate: 0.3},
		Init: sparse.Init{Kind: "uniform", Scale: 0.5},
	}}
	store, err := sparse.Open(sparse.Local{}, sparse.Config{
		Seed:   1,
		Tables: []sparse.Table{{Name: "user", Parts: embedding}, {Name: "item", Parts: embedding}},
	})
	if err != nil {
		log.Fatal(err)
	}

	// Three users and two items. An id is any 64-bit number and is not declared.
	users := []uint64{7, 7, 1 << 40, 1 << 40, 12, 12}
	items := []uint64{100, 200, 100, 200, 100, 200}
	liked := []float32{1, 0, 0, 1, 1, 1}
	each := []int32{0, 1, 2, 3, 4, 5, 6} // one key in each bag
	bags := []sparse.Bags{{Table: 0, Values: users, Offsets: each}, {Table: 1, Values: items, Offsets: each}}

	lookup, n := store.NewLookup(), len(liked)*dim
	u, v, du, dv := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
	predict := func(i int) (sum float32) {
		for d := i * dim; d < (i+1)*dim; d++ {
			sum += float32(u[d] * v[d])
		}
		return sum
	}
	for step := int64(1); step <= 200; step++ {
		if err := store.Pull(lookup, bags, true); err != nil {
			log.Fatal(err)
		}
		lookup.Pool(0, 0, u, dim, false)
		lookup.Pool(1, 0, v, dim, false)
		for i := range liked {
			residual := predict(i) - liked[i]
			for d := i * dim; d < (i+1)*dim; d++ {
				du[d], dv[d] = residual*v[d], residual*u[d]
			}
		}
		lookup.PoolGrad(0, 0, du, dim)
		lookup.PoolGrad(1, 0, dv, dim)
		if err := store.Push(lookup); err != nil {
			log.Fatal(err)
		}
		if err := store.Apply(sparse.Step{N: step}); err != nil {
			log.Fatal(err)
		}
	}

	if err := store.Pull(lookup, bags, false); err != nil { // reading changes nothing
		log.Fatal(err)
	}
	lookup.Pool(0, 0, u, dim, false)
	lookup.Pool(1, 0, v, dim, false)
	for i := range liked {
		fmt.Printf("user %-13d item %d  %.2f\n", users[i], items[i], predict(i))
	}
	fmt.Println(store.Rows(0), "users,", store.Rows(1), "items")
	// Output:
	// user 7             item 100  1.00
	// user 7             item 200  0.00
	// user 1099511627776 item 100  0.00
	// user 1099511627776 item 200  1.00
	// user 12            item 100  1.00
	// user 12            item 200  1.00
	// 3 users, 2 items
}

// A bag has any number of keys. Here the embeddings of the two words of a title are averaged.
func ExampleLookup_Pool() {
	store, err := sparse.Open(sparse.Local{}, sparse.Config{Tables: []sparse.Table{{
		Name: "word", Parts: []sparse.Part{{Name: "weight", Dim: 1, Rule: optim.Rule{Kind: "sgd", LearningRate: 1}}},
	}}})
	if err != nil {
		log.Fatal(err)
	}
	titles := []sparse.Bags{{Values: []uint64{11, 22, 22}, Offsets: []int32{0, 2, 2, 3}, Pooling: sparse.Mean}}
	lookup, y := store.NewLookup(), make([]float32, 3)
	for step := int64(1); step <= 2; step++ {
		if err := store.Pull(lookup, titles, true); err != nil {
			log.Fatal(err)
		}
		lookup.Pool(0, 0, y, 1, false)
		fmt.Println(y)
		lookup.PoolGrad(0, 0, []float32{-1, -1, -1}, 1)
		if err := store.Push(lookup); err != nil {
			log.Fatal(err)
		}
		if err := store.Apply(sparse.Step{N: step}); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// [0 0 0]
	// [1 0 1.5]
}

// A snapshot saves a store as it is after one step, one shard at a time, while the next steps
// run. It can be loaded on any number of ranks.
func ExampleFiles_Snapshot() {
	cfg := sparse.Config{Shards: 4, Tables: []sparse.Table{{
		Name: "user", Parts: []sparse.Part{{Name: "embedding", Dim: 2}},
	}}}
	store, err := sparse.Open(sparse.Local{}, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	lookup := store.NewLookup()
	step := func(n int64, keys ...uint64) {
		bags := []sparse.Bags{{Values: keys, Offsets: []int32{0, int32(len(keys))}}}
		if err := store.Pull(lookup, bags, true); err != nil {
			log.Fatal(err)
		}
		if err := store.Push(lookup); err != nil {
			log.Fatal(err)
		}
		if err := store.Apply(sparse.Step{N: n}); err != nil {
			log.Fatal(err)
		}
	}
	step(1, 1, 2, 3)

	files := map[string]*bytes.Buffer{}
	snapshot := store.Files().Snapshot(sparse.Everything)
	for n, more := int64(2), true; more; n++ {
		more, err = snapshot.Next(func(name string, write func(io.Writer) error) error {
			files[name] = new(bytes.Buffer)
			return write(files[name])
		})
		if err != nil {
			log.Fatal(err)
		}
		step(n, 100*uint64(n)) // this step is not in the files
	}
	if err := snapshot.Close(); err != nil {
		log.Fatal(err)
	}

	loaded, err := sparse.Open(sparse.Local{}, cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer loaded.Close()
	for _, shard := range loaded.Shards().Owned() {
		if file, ok := files[sparse.SectionName("user", shard)]; ok {
			if err := loaded.Files().LoadShard(file, 0, shard); err != nil {
				log.Fatal(err)
			}
		}
	}
	fmt.Println(loaded.Rows(0), "rows of step 1, and later", store.Rows(0) > 3)
	// Output: 3 rows of step 1, and later true
}

package collective_test

import (
	"fmt"
	"sync"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
)

// Three ranks add their gradients.
func ExampleAllReduce() {
	var wg sync.WaitGroup
	sums := make([][]float32, 3)
	for rank, transport := range mem.New(3, 1) {
		wg.Go(func() {
			defer transport.Close()
			gradient := []float32{1, float32(rank), float32(rank * rank)}
			if err := collective.AllReduce(collective.New(transport), gradient, collective.Sum); err != nil {
				fmt.Println(err)
			}
			sums[rank] = gradient
		})
	}
	wg.Wait()
	fmt.Println(sums)
	// Output: [[3 3 5] [3 3 5] [3 3 5]]
}

// Each rank requests a different number of rows from each other rank. The ranks exchange the
// lengths first and then the keys.
func ExampleAllToAllV() {
	var wg sync.WaitGroup
	got := make([][]uint64, 2)
	for rank, transport := range mem.New(2, 1) {
		wg.Go(func() {
			defer transport.Close()
			c := collective.New(transport)
			keys, counts := []uint64{10, 20, 21}, []int64{1, 2} // 10 belongs to rank 0, the others to rank 1
			if rank == 1 {
				keys, counts = []uint64{11, 12}, []int64{2, 0}
			}
			from := make([]int64, 2)
			if err := collective.AllToAll(c, counts, from); err != nil {
				fmt.Println(err)
			}
			send, recv := []int{int(counts[0]), int(counts[1])}, []int{int(from[0]), int(from[1])}
			mine := make([]uint64, recv[0]+recv[1])
			if err := collective.AllToAllV(c, keys, send, mine, recv); err != nil {
				fmt.Println(err)
			}
			got[rank] = mine
		})
	}
	wg.Wait()
	fmt.Println(got)
	// Output: [[10 11 12] [20 21]]
}

package collective_test

import (
	"fmt"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
)

// Three ranks add their gradients.
func ExampleAllReduce() {
	sums := make([][]float32, 3)
	err := mem.Run(3, 1, func(c *collective.Comm) error {
		r := c.Rank()
		sums[r] = []float32{1, float32(r), float32(r * r)}
		return collective.AllReduce(c, sums[r], collective.Sum)
	})
	fmt.Println(sums, err)
	// Output: [[3 3 5] [3 3 5] [3 3 5]] <nil>
}

// Each rank requests a different number of rows from each other rank. The ranks exchange the
// lengths first and then the keys.
func ExampleAllToAllV() {
	got := make([][]uint64, 2)
	err := mem.Run(2, 1, func(c *collective.Comm) error {
		keys, counts := []uint64{10, 20, 21}, []int64{1, 2} // 10 belongs to rank 0, the others to rank 1
		if c.Rank() == 1 {
			keys, counts = []uint64{11, 12}, []int64{2, 0}
		}
		from := make([]int64, 2)
		if err := collective.AllToAll(c, counts, from); err != nil {
			return err
		}
		send, recv := []int{int(counts[0]), int(counts[1])}, []int{int(from[0]), int(from[1])}
		mine := make([]uint64, recv[0]+recv[1])
		got[c.Rank()] = mine
		return collective.AllToAllV(c, keys, send, mine, recv)
	})
	fmt.Println(got, err)
	// Output: [[10 11 12] [20 21]] <nil>
}

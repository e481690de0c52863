package member_test

import (
	"context"
	"fmt"
	"log"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/rank/member"
)

// A process joins its job, sums with the other ranks, and leaves. Give Join os.Getenv:
// under wdlrun, mpirun or srun it then is one rank of many. Nobody launched this one, so
// it is a group of its own.
func Example() {
	train := func(ctx context.Context, getenv func(string) string) error {
		m, err := member.Join(ctx, getenv, member.Options{})
		if err != nil {
			return err
		}
		defer m.Close()
		x := []float32{1, 2, 3}
		if err := collective.AllReduce(m.Comm, x, collective.Sum); err != nil {
			return m.Fail(err) // the verdict: which rank, where, why; the same on all
		}
		fmt.Printf("rank %d of %d: %v\n", m.World.Rank, m.World.Size, x)
		return m.Done(nil)
	}
	nobody := func(string) string { return "" }
	if err := train(context.Background(), nobody); err != nil {
		log.Fatal(err)
	}
	// Output: rank 0 of 1: [1 2 3]
}

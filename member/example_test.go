package member_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/member"
)

// Under wdlrun, mpirun or srun the process is one rank of many. This process has no launcher, so
// it is a group of one rank.
func ExampleRun() {
	err := member.Run(context.Background(), func(ctx context.Context, m *member.Member) error {
		x := []float32{1, 2, 3}
		if err := collective.AllReduce(m.Comm, x, collective.Sum); err != nil {
			return err
		}
		fmt.Printf("rank %d of %d: %v\n", m.World.Rank, m.World.Size, x)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: rank 0 of 1: [1 2 3]
}

// Aborting the group interrupts the calls of all ranks, even of ranks that wait for another
// rank. The deferred stop prevents an abort after f has returned.
func ExampleRun_timeout() {
	err := member.Run(context.Background(), func(ctx context.Context, m *member.Member) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		stop := context.AfterFunc(ctx, func() { m.Comm.Abort(context.Cause(ctx)) })
		defer stop()
		for {
			if err := collective.Barrier(m.Comm); err != nil {
				fmt.Println(errors.Is(err, context.DeadlineExceeded))
				return err
			}
		}
	})
	fmt.Println(err != nil)
	// Output:
	// true
	// true
}

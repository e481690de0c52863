// Command allreduce is the smallest program for a group of ranks: it computes
// the sum of one number of each rank.
//
//	go build -o allreduce ./examples/allreduce
//	wdlrun -np 4 ./allreduce
//
// It also runs under mpirun, under srun and alone.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/member"
)

func main() {
	if err := member.Run(context.Background(), run); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(_ context.Context, m *member.Member) error {
	x := []float32{float32(m.World.Rank), 1}
	if err := collective.AllReduce(m.Comm, x, collective.Sum); err != nil {
		return err
	}
	fmt.Printf("the ranks sum to %v, and there are %v of them\n", x[0], x[1])
	return nil
}

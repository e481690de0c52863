package control_test

import (
	"context"
	"fmt"

	"github.com/wdlrun/wdlrun/internal/control"
	"github.com/wdlrun/wdlrun/rank"
)

// A program becomes a member of its job under any launcher. Here there is no launcher, so
// it is a world of one rank. A main function would pass os.Getenv.
func ExampleEnter() {
	w, _, err := rank.FromEnv(func(string) string { return "" })
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := control.Enter(context.Background(), w, "127.0.0.1:7000", control.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	s.Watch(func() rank.Status { return rank.Status{Phase: "compute", Step: 1} })
	fmt.Println("rank", w.Rank, "of", w.Size, "with", s.Roster())
	fmt.Println(s.Done(nil))
	// Output:
	// rank 0 of 1 with [127.0.0.1:7000]
	// <nil>
}

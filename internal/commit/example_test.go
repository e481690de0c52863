package commit_test

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/commit"
)

// Two ranks, both workers and owners, count the microbatches of one epoch. A
// driver does the same with messages that travel and gradients that are real.
func Example() {
	start := commit.Record{Queue: commit.Queue{Total: 10, Size: 3}}
	cfg := commit.Config{Workers: 2, Slots: 2, Epochs: 1}
	lead := commit.NewCoordinator(cfg, commit.MakeTerm(1, 1, cfg.Workers))
	var owners []*commit.Owner
	var workers []*commit.Worker
	for r := range cfg.Workers {
		owners = append(owners, commit.NewOwner(r, 0, start, 0))
		workers = append(workers, commit.NewWorker(r, 0))
	}
	var flight []commit.Message
	decided := func(out []commit.Message, notes []commit.Note) {
		for _, n := range notes {
			if n.Event == commit.Finished && n.Record.Step > 0 {
				fmt.Printf("step %d: %d slots, %d samples\n", n.Record.Step, len(n.Record.Pieces), n.Record.Samples)
			}
		}
		flight = append(flight, out...)
	}
	decided(lead.Start(0))
	for r := range workers {
		decided(lead.Join(0, r))
	}
	for len(flight) > 0 {
		m := flight[0]
		flight = flight[1:]
		switch m.Kind {
		case commit.Lease, commit.Cancel, commit.Rows, commit.Stale:
			out := workers[m.To].Receive(m, 0)
			flight = append(flight, out.Messages...)
			if out.Act == commit.Compute { // forward, backward
				flight = append(flight, workers[m.To].Computed(out.Tag).Messages...)
			}
		case commit.Ask, commit.Pull, commit.Push, commit.Withdraw, commit.Commit:
			out, err := owners[m.To].Receive(m)
			if err != nil {
				panic(err)
			}
			flight = append(flight, out.Messages...) // after staging or applying
		default:
			decided(lead.Receive(0, m))
		}
	}
	fmt.Println("owners agree:", owners[0].Digest() == owners[1].Digest())
	// Output:
	// step 1: 2 slots, 6 samples
	// step 2: 2 slots, 4 samples
	// owners agree: true
}

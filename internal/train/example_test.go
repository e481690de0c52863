package train_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/collective/mem"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/trace"
)

// Two ranks of one process train the built-in model for one epoch. Ranks that are separate
// processes do the same with the communicator from member.Join.
func Example() {
	dir, err := os.MkdirTemp("", "wdl")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	opt := train.Options{Out: dir, Set: []string{"train.epochs=1"}}
	err = mem.Run(2, 2, func(comm *collective.Comm) error {
		result, err := train.NewJob(comm, trace.New(0), opt).Run(context.Background())
		if err == nil && comm.Rank() == 0 {
			fmt.Printf("%d samples, test AUC above 0.9: %t\n", result.Samples, *result.TestAUC > 0.9)
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: 32561 samples, test AUC above 0.9: true
}

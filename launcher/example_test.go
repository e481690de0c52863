//go:build unix

package launcher_test

import (
	"context"
	"fmt"
	"os"

	"github.com/wdlrun/wdlrun/launcher"
)

// Any program can be a rank of a job. The main function of a launcher would also set a Guard and
// use the context of WithSignals.
func ExampleRun() {
	plan, err := launcher.Place(1, nil, false, launcher.BySlot)
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := launcher.Run(context.Background(), launcher.Job{
		Plan:    plan,
		Command: []string{"sh", "-c", "echo rank $WDLRUN_RANK of $WDLRUN_SIZE; exit 3"},
		Stdout:  os.Stdout,
	})
	fmt.Println(out.Code, out.Verdict.Code, err)
	// Output:
	// [0] rank 0 of 1
	// 3 3 <nil>
}

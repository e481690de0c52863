package trace

import (
	"fmt"
)

// Phase is the activity of a rank.
type Phase int32

func (p Phase) String() string {
	if p < 0 || p >= Phases {
		return fmt.Sprintf("phase %d", int32(p))
	}
	return names[p]
}

// Waits reports whether a rank in this phase may be waiting for others, so that a lack of
// progress does not mean that the rank itself is stuck.
func (p Phase) Waits() bool {
	switch p {
	case Start, Pull, Push, Sync, Wait:
		return true
	}
	return false
}

// The phases of a training job. Its start goes through Brief to Restore, a step through
// Input, Pull, Compute, Push, Sync and Update, in this order.
const (
	Start      Phase  = iota // before the group has formed
	Brief                    // resolving configuration, checkpoint and run directory
	Scan                     // reading the data once to count rows and fit statistics
	Plan                     // encodings, strategies and owners, from the statistics and a sample
	Build                    // making tables and layers
	Restore                  // reading the checkpoint to resume from
	Input                    // waiting for the reader's next batch
	Pull                     // exchanging keys and rows of the batch
	Compute                  // forward, loss, backward
	Push                     // sending gradients of rows to their owners
	Sync                     // reducing dense gradients
	Update                   // optimizer steps
	Eval                     // evaluation between epochs and at the end
	Checkpoint               // writing a checkpoint
	Wait                     // waiting for other ranks, outside of training steps
	Phases     = iota        // number of phases
)

// span is one period in a phase, in nanoseconds since the recorder's origin.
type span struct {
	step       int64
	start, end int64
	phase      Phase
	nth        int // work concurrent with the phases: the bucket or the number of batches, from 1; 0: the phase itself
	bytes      int64
	rows       int
}

// exchange is the time at which the rank entered a call in which all ranks take part.
type exchange struct {
	at  int64 // ns since origin
	seq uint64
}

var names = [Phases]string{"start", "brief", "scan", "plan", "build", "restore", "input", "pull", "compute", "push", "sync", "update", "eval", "checkpoint", "wait"}

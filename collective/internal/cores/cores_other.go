//go:build !linux

package cores

import (
	"runtime"
	"time"
)

// Count returns on how many cores any of the processes may run.
func Count([]int) int { return runtime.NumCPU() }

// Own returns 0: the core of a thread is not to be known.
func Own() uint32 { return 0 }

// Mover moves a thread away from a core now and then.
type Mover struct {
	Last time.Time // it did
}

// Leave does nothing.
func (*Mover) Leave(uint32) {}

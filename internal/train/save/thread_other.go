//go:build !linux

package save

import "time"

// threadTime returns noThread: thread times are not available.
func threadTime() (thread int, had time.Duration) { return noThread, 0 }

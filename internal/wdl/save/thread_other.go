//go:build !linux

package save

import "time"

// threadTime is not known here.
func threadTime() (thread int, had time.Duration) { return noThread, 0 }

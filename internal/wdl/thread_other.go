//go:build !linux

package wdl

import "time"

// threadTime is not known here.
func threadTime() (thread int, had time.Duration) { return noThread, 0 }

//go:build !unix

package report

import "time"

var began = time.Now()

// ProcessTime returns the time since the start of the process. The CPU time is unknown here,
// so the process counts as never starved.
func ProcessTime() time.Duration { return time.Since(began) }

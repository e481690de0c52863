//go:build !unix

package report

import "time"

var began = time.Now()

// ProcessTime is not known here: as if the process always had a core.
func ProcessTime() time.Duration { return time.Since(began) }

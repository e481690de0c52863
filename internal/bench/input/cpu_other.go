//go:build !unix

package input

import "time"

var began = time.Now()

// processTime is not known here: as if the process always had a core.
func processTime() time.Duration { return time.Since(began) }

// Package rescue turns panics into errors, so that a fault in one request or one version does
// not end a process that serves others. Faults that Go cannot recover from, such as an
// exhausted stack, still end it.
package rescue

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// maxValue is the maximum number of bytes of a panic's value in an error.
const maxValue = 500

// Panic is the error of a panic.
type Panic struct {
	Value string // the value of the panic, as text
	Place string // function and line that panicked
	Stack []byte
}

func (p *Panic) Error() string { return "panic in " + p.Place + ": " + p.Value }

// Call calls f. It returns the error of f, or a *Panic if f panics.
func Call(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Panic{Value: fmt.Sprintf("%.*s", maxValue, fmt.Sprint(v)), Place: place(), Stack: debug.Stack()}
		}
	}()
	return f()
}

// place returns the function that panicked. A deferred function calls it.
func place() string {
	const maxFrames = 32 // of the runtime and of this package
	var at [maxFrames]uintptr
	frames := runtime.CallersFrames(at[:runtime.Callers(0, at[:])])
	for panicked := false; ; {
		f, more := frames.Next()
		inner := strings.HasPrefix(f.Function, "runtime.")
		switch {
		case f.Function == "runtime.gopanic":
			panicked = true
		case panicked && !inner:
			return fmt.Sprintf("%s, line %d", f.Function, f.Line)
		}
		if !more {
			return "an unknown function"
		}
	}
}

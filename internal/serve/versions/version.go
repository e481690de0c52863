package versions

import (
	"io"
	"sync/atomic"
	"time"
)

// Version is an open version of a model. Its holder must release it once.
type Version[M io.Closer] struct {
	Number int64
	Model  M
	Since  time.Time // when it became available

	dir  string
	root *Version[M]  // the open version, if this one was adopted
	refs atomic.Int64 // number of requests, plus one for the registry
	gone func()       // called when the last is released
}

// acquire adds a holder. It returns false if the version has been closed.
func (v *Version[M]) acquire() bool {
	for {
		n := v.refs.Load()
		if n == 0 {
			return false
		}
		if v.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release releases a version. The last release closes it, in a separate goroutine.
func (v *Version[M]) Release() {
	if v.refs.Add(-1) == 0 {
		go v.gone()
	}
}

// view is the state of a model for requests. It is immutable.
type view[M io.Closer] struct {
	versions map[int64]*Version[M]
	latest   *Version[M] // nil if there is none
	labels   map[string]int64
}

// State is the state of a version.
type State uint8

// The states in order.
const (
	Loading State = iota
	Available
	Unloading
	Ended
)

// Status is the state of a version. Err is the reason why it ended, nil if it was not
// chosen any more.
type Status struct {
	Number int64
	State  State
	Err    error
}

// Event is a change of a status, or a base folder that cannot be read (Number −1).
type Event struct {
	Model string
	Status
	Dir  string
	Took time.Duration // opening time, if Available
}

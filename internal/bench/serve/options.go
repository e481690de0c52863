package serve

import (
	"time"
)

// Options describe what is measured.
type Options struct {
	Load
	Target      string
	Requests    [][]byte // sent in turn
	Connections int      // per server
	Time        time.Duration
	Turn        time.Duration // duration of a turn; then the other server is measured

	// Swap is the interval at which the target switches between the versions in Base, the
	// folder of Model, which the requests name; 0: never. Afterwards the target serves no
	// other model.
	Swap        time.Duration
	Model, Base string

	// StartEcho starts an echo server that answers with the given number of bytes. It
	// returns the address and a function that stops it. nil: no echo server is measured.
	StartEcho func(bytes int) (address string, stop func(), err error)
}

// Load describes how requests are sent.
type Load struct {
	Rate       float64       // requests per second
	Arrivals   string        // one of Arrivals
	Timeout    time.Duration // per request, from when it is due
	MaxPending int           // unanswered requests; further ones fail
}

// Swap is the result for switches of versions. Switched are the requests that were in
// progress or due during a switch or up to a second after it. Calm are the others.
type Swap struct {
	Switches []Switch  `json:"switches"`
	Calm     Quantiles `json:"calm"`
	Switched Quantiles `json:"switched"`
}

// Switch is a change of the version that answers.
type Switch struct {
	Version int64   `json:"version"`
	Seconds float64 `json:"seconds"` // until the server serves it
}

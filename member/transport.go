package member

import (
	"fmt"

	"github.com/wdlrun/wdlrun/collective/tcp"
	"github.com/wdlrun/wdlrun/internal/control"
	"github.com/wdlrun/wdlrun/rank"
)

// The transports of collective calls.
const (
	Auto   = "auto" // shared memory inside a host if all its ranks support it, else TCP
	Shared = "shm"  // shared memory, or an error
	TCP    = "tcp"
	Hosts  = "shm+tcp" // the choice of Auto for several hosts with several ranks each
)

// Options are the options of a member. The zero value is the default. Transport must be the
// same on all ranks.
type Options struct {
	Control   control.Options
	Transport string // "": as set by the launcher, else Auto

	// Encrypt makes the ranks encrypt TCP connections (package peertls). Either all ranks
	// set it or none. They also encrypt if the launcher demands it. Shared memory is not
	// encrypted: it never leaves the host.
	Encrypt bool

	// Streams is the number of TCP connections between two ranks on a channel
	// (tcp.Config.Streams). 0: as set by the launcher, else 1. It is the same on all ranks.
	Streams int

	// Host is the name of this host, by which ranks find the ranks that share it; "": the
	// system's.
	Host string

	// Warn, if not nil, is called once on rank 0 with the reason, in one line, why Auto
	// does not use shared memory.
	Warn func(line string)
}

// Validate returns an error for an unknown transport or an invalid number of streams.
func (o Options) Validate() error {
	switch o.Transport {
	case "", Auto, Shared, TCP:
	default:
		return fmt.Errorf("member: transport %q is unknown; there are %s, %s and %s", o.Transport, Auto, Shared, TCP)
	}
	if o.Streams < 0 || o.Streams > tcp.MaxStreams {
		return fmt.Errorf("member: %d streams: give 1 to %d", o.Streams, tcp.MaxStreams)
	}
	return nil
}

// Completed returns the options with missing ones taken from the environment that the
// launcher set. An error names the variable or option and its valid values.
func (o Options) Completed(getenv func(string) string) (Options, error) {
	env, err := rank.LinksFromEnv(getenv)
	if err != nil {
		return o, err
	}
	if err := (Options{Transport: env.Transport}).Validate(); err != nil && o.Transport == "" {
		return o, fmt.Errorf("%w: change WDLRUN_TRANSPORT or unset it", err)
	}
	if err := (Options{Streams: env.Streams}).Validate(); err != nil && o.Streams == 0 {
		return o, fmt.Errorf("%w: change WDLRUN_STREAMS or unset it", err)
	}
	if o.Transport == "" {
		o.Transport = env.Transport
	}
	if o.Streams == 0 {
		o.Streams = env.Streams
	}
	o.Encrypt = o.Encrypt || env.Encrypt
	if o.Control.Ports == "" {
		o.Control.Ports = env.Ports
	}
	return o, o.Validate()
}

//go:build !linux

package shm

import (
	"context"

	"github.com/wdlrun/wdlrun/collective"
)

// Listener waits for the peers of a group that is not formed yet.
type Listener struct{}

// Listen returns ErrUnavailable.
func Listen(Config) (*Listener, error) { return nil, ErrUnavailable }

// Connect returns ErrUnavailable.
func (*Listener) Connect(context.Context) (*Transport, error) { return nil, ErrUnavailable }

// Close does nothing.
func (*Listener) Close() error { return nil }

// Transport is one rank's end of a group; there is none on this system.
type Transport struct{ collective.Sharer }

// World returns no group.
func (*Transport) World() (rank, size, channels int) { return 0, 0, 0 }

// Exchange returns ErrUnavailable.
func (*Transport) Exchange(collective.Tag, int, []byte, int, []byte) error { return ErrUnavailable }

// Abort does nothing.
func (*Transport) Abort(error) {}

// Close does nothing.
func (*Transport) Close() error { return nil }

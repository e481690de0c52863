//go:build !linux

package cpus

import "errors"

// Here returns the CPUs on which this process may run.
func Here() ([]CPU, error) {
	return nil, errors.New("cpus: ranks can only be bound on Linux: give -bind none")
}

// On calls start.
func On(_ []int, start func() error) error { return start() }

// RoomHere returns an unlimited room.
func RoomHere() Room { return Room{} }

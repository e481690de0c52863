// Package usersock connects processes of one user on one machine: a Unix socket with a
// name, which rejects processes of other users. Linux uses the abstract namespace, so a
// killed process leaves no file behind. Other systems use a file in a folder that only the
// user may enter.
package usersock

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

var (
	// ErrInUse is returned by Listen if another process listens on the name.
	ErrInUse = errors.New("another process listens")

	// ErrOtherUser is returned by Dial if the process belongs to another user.
	ErrOtherUser = errors.New("it belongs to another user")
)

// Listen listens on a name. Systems without abstract names use a file in folder.
func Listen(folder, name string) (*net.UnixListener, error) {
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: address(folder, name, true)})
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w at the socket %s", ErrInUse, name)
	}
	return ln, err
}

// Accept returns the next connection from a process of this user.
func Accept(ln *net.UnixListener) (*net.UnixConn, error) {
	for {
		conn, err := ln.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if checkUser(conn) == nil {
			return conn, nil
		}
		conn.Close()
	}
}

// Dial connects to the process that listens on a name. A process of another user there is
// an error.
func Dial(folder, name string) (*net.UnixConn, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: address(folder, name, false)})
	if err != nil {
		return nil, err
	}
	if err := checkUser(conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

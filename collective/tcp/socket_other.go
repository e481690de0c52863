//go:build !linux

package tcp

import "net"

// socket exists only on Linux.
type socket struct{}

func takeSocket(net.Conn) (*socket, error) { return nil, nil }

func (*socket) send(a, b []byte) (int, error)    { panic("tcp: no such socket") }
func (*socket) receive(a, b []byte) (int, error) { panic("tcp: no such socket") }

func (*socket) push(b []byte, more bool) (int, error) { panic("tcp: no such socket") }
func (*socket) ready(bool) bool                       { return false }
func (*socket) packets() (sent, again uint32)         { return 0, 0 }
func (*socket) interrupt()                            {}
func (*socket) close()                                {}

type waiter struct{}

func (*waiter) reset()            {}
func (*waiter) add(*socket, bool) {}
func (*waiter) await() *socket    { return nil }

func yield() {}

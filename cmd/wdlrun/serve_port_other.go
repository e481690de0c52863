//go:build !unix

package main

import "syscall"

// reusePort is nil where several processes cannot listen on one port.
var reusePort func(network, address string, c syscall.RawConn) error

//go:build !unix

package serve

import "syscall"

// reusePort is nil on systems without SO_REUSEPORT.
var reusePort func(network, address string, c syscall.RawConn) error

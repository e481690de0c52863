//go:build unix

package ledger

import "syscall"

// nonblock makes opening a pipe return at once.
const (
	nonblock   = syscall.O_NONBLOCK
	errInvalid = syscall.EINVAL
)

//go:build unix

package regular

import "syscall"

// nonblock makes the opening of a pipe return at once.
const nonblock = syscall.O_NONBLOCK

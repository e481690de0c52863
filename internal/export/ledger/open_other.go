//go:build !unix

package ledger

import "errors"

const nonblock = 0

var errInvalid = errors.ErrUnsupported

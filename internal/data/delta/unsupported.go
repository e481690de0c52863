package delta

import "errors"

// ErrUnsupported means that a table is valid but needs something that this package does not know.
var ErrUnsupported = errors.New("not supported")

// unsupported names what is not supported.
type unsupported string

func (e unsupported) Error() string { return string(e) }

func (e unsupported) Is(target error) bool { return target == ErrUnsupported }

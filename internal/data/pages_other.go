//go:build !linux

package data

// allocate returns an empty slice with capacity for n bytes.
func allocate(n int) []byte { return make([]byte, 0, n) }

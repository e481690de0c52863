//go:build !linux

package data

// room returns an empty slice with room for n bytes.
func room(n int) []byte { return make([]byte, 0, n) }

//go:build !amd64 || noasm

package f32

func backends() []*backend { return nil }

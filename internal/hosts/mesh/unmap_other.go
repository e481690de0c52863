//go:build !linux

package mesh

func unmapProgram() {}

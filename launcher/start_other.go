//go:build !linux

package launcher

import "os/exec"

// dieWithLauncher does nothing: without a parent death signal the guard ends the process.
func dieWithLauncher(*exec.Cmd) {}

// awaitEnd returns false: Cmd.Wait waits.
func awaitEnd(int) bool { return false }

// markProcess does nothing: limits of other processes cannot be read.
func markProcess(string) {}

// killMarked does nothing: environments of other processes cannot be read.
func killMarked(string) {}

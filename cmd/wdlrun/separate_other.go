//go:build !linux

package main

import (
	"os/exec"
	"syscall"
)

// separate starts a training in its own process group.
func separate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

//go:build !linux

package command

import (
	"os/exec"
	"syscall"
)

// Separate starts a training in its own process group.
func Separate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

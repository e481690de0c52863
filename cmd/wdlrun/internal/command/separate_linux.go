package command

import (
	"os/exec"
	"syscall"
)

// Separate starts a training in its own process group. If the sweep is killed, the kernel
// kills the launcher of the training, whose guard kills the ranks. SIGTERM would not do: the
// kernel may send it once for each thread of the sweep, and a launcher takes the second one
// as the request to end at once.
func Separate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

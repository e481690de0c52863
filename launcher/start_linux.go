package launcher

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithLauncher has the kernel kill the process when the thread that starts it
// ends. So that thread must live as long as the job; see fleet.fork.
func dieWithLauncher(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

// awaitEnd returns when the process has ended, but does not reap it: until it
// is reaped its number, and so its group's, cannot be given to another. It
// returns false, at once, where the kernel does not know the process.
func awaitEnd(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err == nil
		}
	}
}

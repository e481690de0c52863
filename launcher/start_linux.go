package launcher

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/internal/regular"
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

// killMarked ends the processes whose environment has mark in it, until none is
// left that may be ended: what forks while it looks is found by the next look.
func killMarked(mark string) {
	for range 100 {
		found := false
		names, _ := os.ReadDir("/proc")
		for _, n := range names {
			pid, err := strconv.Atoi(n.Name())
			if err != nil || pid == os.Getpid() {
				continue
			}
			environ, err := regular.ReadFile("/proc/"+n.Name()+"/environ", 1<<24)
			if err == nil && strings.Contains("\x00"+string(environ), "\x00"+mark+"\x00") {
				found = syscall.Kill(pid, syscall.SIGKILL) == nil || found
			}
		}
		if !found {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

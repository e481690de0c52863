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

// dieWithLauncher makes the kernel kill the process when the thread that starts it ends.
// That thread must therefore live as long as the job; see forker.
func dieWithLauncher(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

// awaitEnd returns when the process has ended, without reaping it. Until it is reaped, its
// number and the number of its group cannot be reused. It returns false at once if the kernel
// does not know the process.
func awaitEnd(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err == nil
		}
	}
}

// killMarked kills the processes that have mark in their environment. It repeats until it
// finds none that it may kill, because processes may fork meanwhile.
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

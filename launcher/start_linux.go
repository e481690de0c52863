package launcher

import (
	"crypto/sha256"
	"encoding/binary"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
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

// limitOf returns a mark as the value of a limit.
func limitOf(mark string) uint64 {
	sum := sha256.Sum256([]byte(mark))
	return binary.LittleEndian.Uint64(sum[:]) >> 2 // below the value for "unlimited"
}

// markProcess sets the limit of file locks of this process, which Linux does not use, to
// limitOf(mark). Its descendants inherit the limit, even if they call setsid, clear their
// environment and outlive their parents. A subreaper would lose them if it is killed itself.
// On an error the descendants have only the mark in their environment.
func markProcess(mark string) {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_LOCKS, &l) == nil {
		l.Cur = limitOf(mark)
		unix.Setrlimit(unix.RLIMIT_LOCKS, &l)
	}
}

// marked reports whether the process of a folder of /proc runs and has mark in its environment
// or as its limit.
func marked(proc, mark string) bool {
	if _, err := os.Readlink(proc + "/exe"); err != nil { // a zombie, or of another user
		return false
	}
	environ, err := regular.ReadFile(proc+"/environ", 1<<24)
	if err == nil && strings.Contains("\x00"+string(environ), "\x00"+mark+"\x00") {
		return true
	}
	limits, err := regular.ReadFile(proc+"/limits", 1<<16)
	_, after, _ := strings.Cut(string(limits), "Max file locks")
	soft, _, _ := strings.Cut(strings.TrimSpace(after), " ")
	return err == nil && soft == strconv.FormatUint(limitOf(mark), 10)
}

// killMarked kills all other marked processes. It repeats until it finds none that it may kill,
// because processes may fork meanwhile.
func killMarked(mark string) {
	for range 100 {
		found := false
		names, _ := os.ReadDir("/proc")
		for _, n := range names {
			pid, err := strconv.Atoi(n.Name())
			if err == nil && pid != os.Getpid() && marked("/proc/"+n.Name(), mark) {
				found = syscall.Kill(pid, syscall.SIGKILL) == nil || found
			}
		}
		if !found {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

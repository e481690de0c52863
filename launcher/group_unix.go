//go:build unix

package launcher

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// ownGroup makes cmd the leader of a new process group.
func ownGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

// termGroup asks the processes of a group to end. It wakes stopped ones first.
func termGroup(pgid int) {
	syscall.Kill(-pgid, syscall.SIGTERM)
	syscall.Kill(-pgid, syscall.SIGCONT)
}

// pauseGroup stops the processes of a group; wakeGroup continues them.
func pauseGroup(pgid int) { syscall.Kill(-pgid, syscall.SIGSTOP) }
func wakeGroup(pgid int)  { syscall.Kill(-pgid, syscall.SIGCONT) }

// killGroup ends the processes of a group.
func killGroup(pgid int) { syscall.Kill(-pgid, syscall.SIGKILL) }

// outlive makes this process ignore the signals that end the launcher.
func outlive() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
}

// outliveSession makes this process survive the end of a login, which it detects itself.
func outliveSession() { signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE) }

// ending returns the exit code or the signal of a process.
func ending(state *os.ProcessState) (code, sig int) {
	if state == nil {
		return 1, 0 // the wait failed
	}
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 0, int(w.Signal())
	}
	return state.ExitCode(), 0
}

// endingSignals are the signals that end a job.
var endingSignals = [...]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

func signalNumber(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return int(n)
	}
	return int(syscall.SIGTERM)
}

//go:build unix

package launcher

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// ownGroup makes cmd the leader of a process group of its own.
func ownGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

// tellGroup asks the processes of a group to end; stopped ones are woken for it.
func tellGroup(pgid int) {
	syscall.Kill(-pgid, syscall.SIGTERM)
	syscall.Kill(-pgid, syscall.SIGCONT)
}

// pauseGroup stops the processes of a group, and wakeGroup lets them continue.
func pauseGroup(pgid int) { syscall.Kill(-pgid, syscall.SIGSTOP) }
func wakeGroup(pgid int)  { syscall.Kill(-pgid, syscall.SIGCONT) }

// killGroup ends the processes of a group.
func killGroup(pgid int) { syscall.Kill(-pgid, syscall.SIGKILL) }

// outlive makes the signals that end the launcher not end this process.
func outlive() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
}

// outliveSession makes the end of a login not end this process, which notices by itself.
func outliveSession() { signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE) }

// ending returns how a process ended.
func ending(state *os.ProcessState) (code, sig int) {
	if state == nil {
		return 1, 0 // it could not be waited for
	}
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 0, int(w.Signal())
	}
	return state.ExitCode(), 0
}

// endingSignals are those on which a job ends.
var endingSignals = [...]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

func signalNumber(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return int(n)
	}
	return int(syscall.SIGTERM)
}

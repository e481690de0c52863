//go:build !unix

package launcher

import (
	"os"
	"os/exec"
)

// Without Unix process groups only a rank's own process is ended.

func ownGroup(*exec.Cmd) {}

func termGroup(pid int) { killGroup(pid) }

func pauseGroup(int) {}

func wakeGroup(int) {}

func suspends(crew) (stop func()) { return func() {} }

func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		p.Kill()
		p.Release()
	}
}

func outlive() {}

func outliveSession() {}

func ending(state *os.ProcessState) (code, sig int) {
	if state == nil {
		return 1, 0
	}
	return state.ExitCode(), 0
}

var endingSignals = [...]os.Signal{os.Interrupt}

func signalNumber(os.Signal) int { return 2 }

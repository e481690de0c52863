package member

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/rank"
)

// grace is the time in which the other ranks reach the same verdict, if the lost rank has the coordinator.
// Those that find it killed report that instead.
const grace = 2 * time.Second

// siblings are the processes of other ranks that the same launcher has started on this host.
type siblings map[int]*os.Process

// newSiblings opens the processes of the ranks on this host. A process counts only if it is a child of the
// process that started this one, so a number that means another process here is of no effect.
// The handles stay with the processes if their numbers are used again.
func newSiblings(members []rank.Member, p place, own int) siblings {
	s := siblings{}
	for r, m := range members {
		if r == own || p.hostOf[r] != p.hostOf[own] || m.Pid == members[own].Pid {
			continue
		}
		handle, err := os.FindProcess(m.Pid)
		if err != nil {
			continue
		}
		if _, parent := processState(m.Pid); parent != os.Getppid() || parent <= 1 {
			handle.Release()
			continue
		}
		s[r] = handle
	}
	return s
}

// end kills the rank that a verdict names, if its process is stopped: mpiexec of MPICH and Intel MPI
// sends a signal that can be caught, and then waits for it. A process that runs ends by itself.
func (s siblings) end(err error) {
	var v *rank.Verdict
	if !errors.As(err, &v) || v.Kind != rank.Silent && v.Kind != rank.Gone {
		return
	}
	p := s[v.Rank]
	if p == nil {
		return
	}
	stopped := func() bool {
		state, parent := processState(p.Pid)
		return state == 'T' && parent == os.Getppid()
	}
	if !stopped() {
		return
	}
	time.Sleep(grace)
	if stopped() {
		p.Kill() // an error means that it has ended
	}
}

// release closes the handles.
func (s siblings) release() {
	for _, p := range s {
		p.Release()
	}
}

// processState returns the state and the parent of a process; 0 if there is none.
func processState(pid int) (state byte, parent int) {
	b, err := regular.ReadFile(fmt.Sprintf("/proc/%d/stat", pid), 1<<12)
	if err != nil {
		return 0, 0
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // the name before it may hold anything
	if len(f) < 2 {
		return 0, 0
	}
	parent, _ = strconv.Atoi(string(f[1])) // 0: not a number
	return f[0][0], parent
}

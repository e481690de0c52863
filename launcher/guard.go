package launcher

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Guard is the body of the guard process: it reads from r, which is its standard
// input, which process groups live, a line each, "+PGID" or "-PGID", and what
// the environment of the job's processes has in it, "=NAME=VALUE". When r ends,
// because the launcher has ended in whatever way, it kills the groups that are
// left, with all that the ranks have started in them; and, where the system tells
// environments, what bears the job's, since the launcher may have been killed
// between starting a process and naming its group. It ignores the signals that
// end the launcher.
func Guard(r io.Reader) {
	outlive()
	groups, mark := map[int]bool{}, ""
	for lines := bufio.NewScanner(r); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "=") {
			mark = line[1:]
		}
		if len(line) < 2 {
			continue
		}
		pgid, err := strconv.Atoi(line[1:])
		if err != nil || pgid < 2 { // 0 and 1 mean other things to kill
			continue
		}
		switch line[0] {
		case '+':
			groups[pgid] = true
		case '-':
			delete(groups, pgid)
		}
	}
	for pgid := range groups {
		killGroup(pgid)
	}
	if strings.Contains(mark, "=") {
		killMarked(mark)
	}
}

// guard is the launcher's end of the guard process. A nil guard guards nothing.
type guard struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	pipe io.WriteCloser
}

// startGuard starts the guard process by its command, none for an empty one. It
// stays apart from the launcher's own group, so that what ends that spares it.
// The environment of every process of the job will have mark, NAME=VALUE.
func startGuard(command []string, mark string) (*guard, error) {
	if len(command) == 0 {
		return nil, nil
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = []string{} // a launcher that is a rank of another job leaves its guard when both are killed
	ownGroup(cmd)
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("launcher: guard: %w", explain(err))
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("launcher: guard: %w", explain(err))
	}
	fmt.Fprintf(pipe, "=%s\n", mark)
	return &guard{cmd: cmd, pipe: pipe}, nil
}

func (g *guard) watch(pgid int)  { g.say('+', pgid) }
func (g *guard) forget(pgid int) { g.say('-', pgid) }

// say writes a line. That the guard is gone is no error of the job.
func (g *guard) say(sign byte, pgid int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	fmt.Fprintf(g.pipe, "%c%d\n", sign, pgid)
}

// close lets the guard end: the job has ended in order, and what it may have left
// outside its groups it left on purpose.
func (g *guard) close() {
	if g == nil {
		return
	}
	fmt.Fprintln(g.pipe, "=")
	g.pipe.Close()
	late := time.AfterFunc(reapTime, func() { g.cmd.Process.Kill() })
	defer late.Stop()
	g.cmd.Wait()
}

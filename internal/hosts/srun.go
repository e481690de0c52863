package hosts

import (
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/text/pattern"
)

// NewSrun returns a Starter that runs a step of the current allocation of Slurm on each node. The step runs the script that SSH runs.
func NewSrun(ship Ship, image *Image, path string, run Run, stderr io.Writer) (*SSH, error) {
	if _, err := exec.LookPath("srun"); err != nil {
		return nil, fmt.Errorf("hosts: %w: install the clients of Slurm, or name hosts with -H", err)
	}
	const try = "srun --overlap -N1 -n1 -w"
	command := strings.Fields("srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --unbuffered --mpi=none --cpu-bind=none --quiet")
	args := func(host, script string) []string { return []string{"--nodelist=" + host, "sh", "-c", script} }
	kind := loginKind{args: args, env: withoutTasks, try: try, fails: "Slurm did not run a step there", silent: "its step has not started, see squeue -s", causes: diskCauses}
	return newSSH(command, ship, image, path, run, withoutCancels{stderr}, kind), nil
}

// stepEnds matches the lines in which Slurm reports, for each step, that the job is cancelled. It reports that for the
// batch script too, which is enough.
var stepEnds = pattern.Lazy(`slurmstepd[^:]*: error: \*\*\* STEP \S+ ON \S+ CANCELLED AT |srun: (Job step aborted: |forcing job termination)`)

// withoutCancels passes lines on, except those of stepEnds.
type withoutCancels struct{ to io.Writer }

func (w withoutCancels) Write(line []byte) (int, error) {
	if w.to == nil || stepEnds().Match(line) {
		return len(line), nil
	}
	return w.to.Write(line)
}

// withoutTasks removes the variables that would make srun give a step only a part of a node.
func withoutTasks(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK", "SLURM_TRES_PER_TASK", "SLURM_EXACT", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_DISTRIBUTION":
			return true
		}
		return false
	})
}

// Node is a machine of an allocation.
type Node struct {
	Name  string
	Tasks int
}

const (
	// maxNodes bounds the number of nodes of an allocation.
	maxNodes = 1 << 14

	// maxTasks bounds the number of tasks of a node.
	maxTasks = 1 << 16
)

// Allocation returns the nodes of the allocation of Slurm in which this process runs. Outside
// an allocation it returns none, and also within a step, which is one of the tasks. The components
// of a heterogeneous job are jobs of their own, which one step per node cannot span.
func Allocation(getenv func(string) string) ([]Node, error) {
	if n := getenv("SLURM_HET_SIZE"); getenv("SLURM_JOB_ID") != "" && n != "" && n != "1" && !withinStep(getenv) {
		return nil, fmt.Errorf("hosts: SLURM_HET_SIZE=%q: wdlrun would use only the first component of this heterogeneous job; start the ranks with srun --het-group=0,1 wdlrun and so on, or name the hosts with -H", n)
	}
	list := getenv("SLURM_JOB_NODELIST")
	if getenv("SLURM_JOB_ID") == "" || list == "" || withinStep(getenv) {
		return nil, nil
	}
	names, err := parseNodes(list)
	if err != nil {
		return nil, fmt.Errorf("hosts: SLURM_JOB_NODELIST=%q: %w; name the hosts with -H", list, err)
	}
	per := getenv("SLURM_TASKS_PER_NODE")
	tasks, err := parseTasks(per, len(names))
	if err != nil {
		return nil, fmt.Errorf("hosts: SLURM_TASKS_PER_NODE=%q: %w; name the hosts with -H", per, err)
	}
	nodes := make([]Node, len(names))
	for i := range nodes {
		nodes[i] = Node{names[i], tasks[i]}
	}
	return nodes, nil
}

// withinStep reports whether this process is a task of a step that the user started. Batch
// scripts and interactive shells are steps too, with numbers from 0xfffffff0.
func withinStep(getenv func(string) string) bool {
	step, err := strconv.ParseUint(getenv("SLURM_STEP_ID"), 10, 32)
	return err == nil && step < 0xfffffff0
}

var (
	nodeEntry = pattern.Lazy(`^([A-Za-z0-9._-]*)(?:\[([0-9,-]+)\]([A-Za-z0-9._-]*))?$`)
	taskEntry = pattern.Lazy(`^(\d{1,6})(?:\(x(\d{1,6})\))?$`)
)

// parseNodes reads a list such as "n[1-3,07],login".
func parseNodes(list string) (names []string, err error) {
	for _, entry := range splitNodes(list) {
		m := nodeEntry().FindStringSubmatch(entry)
		if m == nil || entry == "" {
			return nil, fmt.Errorf("%q is not a list of nodes", entry)
		}
		if m[2] == "" {
			names = append(names, entry)
			continue
		}
		for span := range strings.SplitSeq(m[2], ",") {
			numbers, err := parseSpan(span)
			if err != nil {
				return nil, err
			}
			for _, n := range numbers {
				names = append(names, m[1]+n+m[3])
			}
			if len(names) > maxNodes {
				break
			}
		}
	}
	if len(names) > maxNodes {
		return nil, fmt.Errorf("more than %d nodes", maxNodes)
	}
	return names, nil
}

// splitNodes splits at the commas outside brackets.
func splitNodes(list string) (entries []string) {
	begin, depth := 0, 0
	for i, c := range list {
		switch c {
		case '[':
			depth++
		case ']':
			depth--
		case ',':
			if depth == 0 {
				entries, begin = append(entries, list[begin:i]), i+1
			}
		}
	}
	return append(entries, list[begin:])
}

// parseSpan reads "7" or "07-12". Numbers have as many digits as the first.
func parseSpan(span string) (numbers []string, err error) {
	low, high, ranged := strings.Cut(span, "-")
	if !ranged {
		high = low
	}
	first, errFirst := strconv.ParseUint(low, 10, 31)
	last, errLast := strconv.ParseUint(high, 10, 31)
	if errFirst != nil || errLast != nil || last < first || last-first >= maxNodes {
		return nil, fmt.Errorf("%q is not a range of up to %d nodes", span, maxNodes)
	}
	for n := first; n <= last; n++ {
		numbers = append(numbers, fmt.Sprintf("%0*d", len(low), n))
	}
	return numbers, nil
}

// parseTasks reads the tasks of each node from a list such as "8(x3),4".
func parseTasks(list string, nodes int) (tasks []int, err error) {
	for entry := range strings.SplitSeq(list, ",") {
		m := taskEntry().FindStringSubmatch(entry)
		if m == nil {
			return nil, fmt.Errorf("%q is not a number of tasks", entry)
		}
		n, _ := strconv.Atoi(m[1])
		times := 1
		if m[2] != "" {
			times, _ = strconv.Atoi(m[2])
		}
		if n < 1 || n > maxTasks || len(tasks)+times > nodes {
			return nil, fmt.Errorf("tasks of %d nodes are expected", nodes)
		}
		tasks = append(tasks, slices.Repeat([]int{n}, times)...)
	}
	if len(tasks) != nodes {
		return nil, fmt.Errorf("tasks of %d nodes are expected", nodes)
	}
	return tasks, nil
}

package rank

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/text/pattern"
)

// FromEnv reads the World of this process from its environment; the package comment
// lists the variables. If no launcher started the process as a rank, found is false and
// w is a world of one rank. An error names the variable and its value.
func FromEnv(getenv func(string) string) (w World, found bool, err error) {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	return fromEnv(getenv, host, os.Getppid())
}

func fromEnv(getenv func(string) string, host string, parent int) (w World, found bool, err error) {
	e := &env{get: getenv, parent: parent}
	w = World{Size: 1, LocalSize: 1, Host: host}
	for _, engine := range engines {
		if !engine.started(e) {
			continue
		}
		w.By, found = engine.name, true
		engine.read(e, &w)
		break
	}
	e.own(&w)
	if e.err == nil {
		e.err = e.consistent(w)
	}
	if e.err != nil {
		return World{}, false, fmt.Errorf("rank: environment of %s: %w", orNone(w.By), e.err)
	}
	return w, found, nil
}

func orNone(by string) string {
	if by == "" {
		return "a program started alone"
	}
	return by
}

// engine describes a launcher: how to recognise it and how to read its variables.
type engine struct {
	name    string
	started func(*env) bool
	read    func(*env, *World)
}

var engines = [...]engine{
	{"wdlrun", (*env).isOwn, (*env).readOwn},
	{"torchrun", (*env).isTorchrun, (*env).readTorchrun},
	{"openmpi", (*env).isOpenMPI, (*env).readOpenMPI},
	{"mpich", (*env).isMPICH, (*env).readMPICH},
	{"slurm", (*env).isSlurm, (*env).readSlurm},
	{"indexed job", (*env).isIndexedJob, (*env).readIndexedJob},
}

// env reads variables. It keeps the first error, and the names of the variables that gave
// each number, to name both in a contradiction.
type env struct {
	get        func(string) string
	parent     int
	rank, size string // names of the variables read
	local      string
	locals     string
	err        error
}

func (e *env) has(name string) bool { return e.get(name) != "" }

func (e *env) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}

// number reads a whole number from 0 to MaxSize.
func (e *env) number(name string) int {
	v := e.get(name)
	if v == "" {
		e.fail("%s is not set", name)
		return 0
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		e.fail("%s=%q is not a whole number", name, v)
		return 0
	}
	if n < 0 || n > MaxSize {
		e.fail("%s=%q is not within 0 … %d", name, v, MaxSize)
		return 0
	}
	return n
}

// numberOr is number for a variable that may be absent.
func (e *env) numberOr(name string, absent int) int {
	if !e.has(name) {
		return absent
	}
	return e.number(name)
}

// place reads the four numbers that every launcher sets. The local ones may be absent.
func (e *env) place(w *World, rank, size, local, locals string) {
	e.rank, e.size, e.local, e.locals = rank, size, local, locals
	w.Rank, w.Size = e.number(rank), e.number(size)
	w.LocalRank = e.numberOr(local, 0)
	w.LocalSize = e.numberOr(locals, max(1, w.LocalRank+1))
}

// consistent returns an error that names the variables of the first contradiction in w.
func (e *env) consistent(w World) error {
	if e.rank == "" {
		return nil // a process without a launcher
	}
	named := func(name string) string { return fmt.Sprintf("%s=%q", name, e.get(name)) }
	switch {
	case w.Size < 1:
		return fmt.Errorf("%s: there is at least one rank", named(e.size))
	case w.Rank >= w.Size:
		return fmt.Errorf("%s is not below %s", named(e.rank), named(e.size))
	case w.LocalSize < 1:
		return fmt.Errorf("%s: there is at least one rank on this host", named(e.locals))
	case w.LocalSize > w.Size:
		return fmt.Errorf("%s is above %s", named(e.locals), named(e.size))
	case w.LocalRank >= w.LocalSize:
		return fmt.Errorf("%s is not below %s", named(e.local), named(e.locals))
	}
	return nil
}

// own reads the variables that apply under every launcher.
func (e *env) own(w *World) {
	w.Generation = e.numberOr("WDLRUN_GENERATION", w.Generation)
	w.Rendezvous = e.get("WDLRUN_RENDEZVOUS")
	if job := e.get("WDLRUN_JOB"); job != "" {
		w.Job = job
	}
	if at := e.get("WDLRUN_COORDINATOR"); at != "" {
		host, port, err := net.SplitHostPort(at)
		n, bad := strconv.ParseUint(port, 10, 16)
		if err != nil || host == "" || bad != nil || n == 0 {
			e.fail("WDLRUN_COORDINATOR=%q is not host:port", at)
		}
		w.Coordinator = at
	}
	if key := e.get("WDLRUN_KEY"); key != "" {
		k, err := ParseKey(key)
		if err != nil {
			e.fail("WDLRUN_KEY is not a key: %w", err) // the value is secret
		}
		w.Key = k
	}
	if host := e.get("WDLRUN_HOST"); host != "" {
		w.Host = host
	}
	if ip := e.get("WDLRUN_IP"); ip != "" {
		if net.ParseIP(ip) == nil {
			e.fail("WDLRUN_IP=%q is not an IP address", ip)
		}
		w.IP = ip
	}
	if w.By == "wdlrun" && e.has("WDLRUN_LAUNCHER") {
		w.Launched = true
		if w.Coordinator == "" || w.Key == (Key{}) {
			e.fail("WDLRUN_LAUNCHER=%q is set, so WDLRUN_COORDINATOR and WDLRUN_KEY must be", e.get("WDLRUN_LAUNCHER"))
		}
	}
	if w.Coordinator != "" && w.Key == (Key{}) && w.Size > 1 {
		e.fail("WDLRUN_COORDINATOR=%q is set but WDLRUN_KEY is not: give all ranks the same 64 hexadecimal digits", w.Coordinator)
	}
}

func (e *env) isOwn() bool {
	return e.has("WDLRUN_RANK") || e.has("WDLRUN_SIZE") && !e.has("JOB_COMPLETION_INDEX")
}

func (e *env) readOwn(w *World) {
	e.place(w, "WDLRUN_RANK", "WDLRUN_SIZE", "WDLRUN_LOCAL_RANK", "WDLRUN_LOCAL_SIZE")
}

// isTorchrun requires more than RANK and WORLD_SIZE, whose names are too common.
func (e *env) isTorchrun() bool {
	return e.has("RANK") && e.has("WORLD_SIZE") && (e.has("LOCAL_RANK") || e.has("MASTER_ADDR"))
}

// readTorchrun names the job by run id and master address, because the run id of every job
// on one host is "none".
func (e *env) readTorchrun(w *World) {
	e.place(w, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
	w.Generation = e.numberOr("TORCHELASTIC_RESTART_COUNT", 0)
	w.Job = join("torchrun", e.get("TORCHELASTIC_RUN_ID"), e.get("MASTER_ADDR"), e.get("MASTER_PORT"))
}

func (e *env) isOpenMPI() bool { return e.has("OMPI_COMM_WORLD_RANK") }

func (e *env) readOpenMPI(w *World) {
	e.place(w, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE")
	for _, name := range []string{"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri"} {
		if e.has(name) {
			w.Job = join("openmpi", e.get(name))
			return
		}
	}
}

func (e *env) isMPICH() bool { return e.has("PMI_RANK") && e.has("MPI_LOCALRANKID") }

// readMPICH names the job by the process that started the ranks, because Hydra sets no
// name. This process is the same for all ranks only on one host.
func (e *env) readMPICH(w *World) {
	e.place(w, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
	if w.oneHost() {
		w.Job = join("mpich", strconv.Itoa(e.parent))
	}
}

// slurmSpecial is the first number of Slurm's own steps: batch script, extern, interactive.
const slurmSpecial = 0xfffffff0

// isSlurm returns false for a batch script, which has SLURM_PROCID but is not a rank.
func (e *env) isSlurm() bool {
	if !e.has("SLURM_PROCID") || !e.has("SLURM_STEP_NUM_TASKS") || !e.has("SLURM_STEP_ID") {
		return false
	}
	step, err := strconv.ParseUint(e.get("SLURM_STEP_ID"), 10, 32)
	return err != nil || step < slurmSpecial
}

func (e *env) readSlurm(w *World) {
	e.place(w, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "")
	if _, err := strconv.ParseUint(e.get("SLURM_STEP_ID"), 10, 32); err != nil {
		e.fail("SLURM_STEP_ID=%q is not a whole number", e.get("SLURM_STEP_ID"))
	}
	w.Job = join("slurm", e.get("SLURM_JOB_ID"), e.get("SLURM_STEP_ID"))
	if !e.has("SLURM_STEP_TASKS_PER_NODE") {
		return
	}
	e.locals = "SLURM_STEP_TASKS_PER_NODE"
	n, ok := tasksOn(e.get(e.locals), e.numberOr("SLURM_NODEID", 0))
	if !ok {
		e.fail("%s=%q has no entry for SLURM_NODEID=%q", e.locals, e.get(e.locals), e.get("SLURM_NODEID"))
	}
	w.LocalSize = n
}

var repeated = pattern.Lazy(`^(\d{1,6})(?:\(x(\d{1,6})\))?$`)

// tasksOn reads the entry of a node from a list like "2(x3),1".
func tasksOn(list string, node int) (tasks int, ok bool) {
	for entry := range strings.SplitSeq(list, ",") {
		m := repeated().FindStringSubmatch(entry)
		if m == nil {
			return 0, false
		}
		times := 1
		if m[2] != "" {
			times, _ = strconv.Atoi(m[2])
		}
		if node < times {
			tasks, _ = strconv.Atoi(m[1])
			return tasks, true
		}
		node -= times
	}
	return 0, false
}

// isIndexedJob requires WDLRUN_SIZE, because an Indexed Job may also be many separate
// experiments.
func (e *env) isIndexedJob() bool { return e.has("JOB_COMPLETION_INDEX") && e.has("WDLRUN_SIZE") }

func (e *env) readIndexedJob(w *World) {
	e.place(w, "JOB_COMPLETION_INDEX", "WDLRUN_SIZE", "WDLRUN_LOCAL_RANK", "WDLRUN_LOCAL_SIZE")
	w.Rank = w.Rank*max(w.LocalSize, 1) + w.LocalRank // a pod has one container per rank
}

// join joins the non-empty parts of a job's name.
func join(parts ...string) string {
	var have []string
	for _, p := range parts {
		if p != "" {
			have = append(have, p)
		}
	}
	return strings.Join(have, "-")
}

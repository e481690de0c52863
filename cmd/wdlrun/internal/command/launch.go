package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/wdlrun/wdlrun/internal/machine/cpus"
	"github.com/wdlrun/wdlrun/internal/text/nearest"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/launcher"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
)

func LaunchFlags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "np", Aliases: []string{"n"}, Usage: "start `N` ranks", DefaultText: "slots of -H or -hostfile, else tasks of the Slurm allocation, else 1"},
		&cli.StringFlag{Name: "H", Aliases: []string{"host"}, Usage: "run on `HOSTS`, each with its number of slots: a:4,b:4; @a:4 uses the agent on a instead of ssh"},
		&cli.StringFlag{Name: "hostfile", Usage: "read the hosts from `FILE`, one per line: name slots=N"},
		&cli.StringFlag{Name: "ssh", Value: "ssh", Usage: "log in to other hosts with `COMMAND`, such as \"ssh -p 2222\""},
		&cli.StringFlag{Name: "ship", Value: "auto", Usage: "send wdlrun and your program to hosts that lack them: auto, always or never"},
		&cli.StringSliceFlag{Name: "x", Usage: "pass the environment variable `NAME`[=VALUE] to the ranks"},
		&cli.StringFlag{Name: "net", Usage: "use `NETWORK` between hosts: 10.0.0.0/8, the interface eth1, or all except ^docker0", DefaultText: "the fastest that connects all hosts"},
		&cli.StringFlag{Name: "ports", Usage: "ranks listen on ports in `RANGE`, such as 20000-20100", DefaultText: "any free port"},
		&cli.StringFlag{Name: "wdir", Usage: "run the ranks in `DIRECTORY` on every host", DefaultText: "the launcher's"},
		&cli.StringFlag{Name: "map", Value: "slot", Usage: "fill one host after the other (slot), spread the ranks over the hosts (node), or also over the NUMA nodes of each host (numa)"},
		&cli.StringFlag{Name: "bind", Value: cpus.None, Usage: "bind each rank to its share of the host's cores (core) or NUMA nodes (numa), or do not bind (none)"},
		&cli.StringFlag{Name: "mem", Usage: "start only if every host has `BYTES` of memory for each of its ranks, such as 8g"},
		&cli.BoolFlag{Name: "oversubscribe", Usage: "allow more ranks than slots; without slots, more than 16 per core or 128 in all"},
		&cli.BoolFlag{Name: "plan", Usage: "print where each rank would run, on which CPUs of this machine, and start nothing"},
		&cli.DurationFlag{Name: "timeout", Value: 30 * time.Second, Usage: "end the job if a rank makes no progress for `DURATION`; a rank that sends no heartbeat ends it after at most 4s"},
		&cli.IntFlag{Name: "restarts", Usage: "restart after a failure, at most `N` times without a new step; train resumes from its last checkpoint", DefaultText: "never"},
		&cli.DurationFlag{Name: "restart-wait", Value: 10 * time.Minute, Usage: "a restart waits for a host that does not answer for at most `DURATION`"},
		&cli.IntFlag{Name: "min-np", Usage: "restart without the failed rank, down to `M` ranks", DefaultText: "replace it"},
		&cli.StringFlag{Name: "output", Value: "prefixed", Usage: "output of the ranks: prefixed with [rank], or merged"},
		&cli.StringFlag{Name: "transport", Value: member.Auto, Usage: "how ranks exchange data: shm (shared memory, on one host), tcp, or auto"},
		&cli.BoolFlag{Name: "encrypt", Usage: "encrypt tcp links with TLS 1.3"},
		&cli.IntFlag{Name: "streams", Value: 1, Usage: "open `N` tcp connections between two ranks; more than 1 helps if one core cannot fill the link"},
		&cli.StringFlag{Name: "coordinator", Usage: "the coordinator listens on `ADDRESS`", DefaultText: "a free port of 127.0.0.1"},
		JSONFlag(),
	}
}

// Executable is the action for a PROGRAM that is not a command of wdlrun.
func (p *Program) Executable(c *cli.Context) error {
	command := c.Args().Slice()
	if len(command) == 0 {
		if c.Bool("plan") {
			return p.Launch(c, nil, launched{})
		}
		if c.NumFlags() > 0 {
			return errors.New("no PROGRAM to start; usage: wdlrun [launch flags] PROGRAM, such as wdlrun -np 2 train")
		}
		return cli.ShowAppHelp(c)
	}
	if _, err := exec.LookPath(command[0]); errors.Is(err, exec.ErrNotFound) {
		why := fmt.Sprintf("%q is neither a program of wdlrun nor an executable in PATH%s", command[0], nearest.Instead(command[0], Programs(c.App)))
		return p.unstarted(127, c.Bool("json"), why)
	}
	if err := Enter(c); err != nil {
		return err
	}
	return p.Launch(c, command, launched{stdin: os.Stdin})
}

// unstarted reports why a program was not started, and returns the exit code.
func (p *Program) unstarted(code int, asJSON bool, why string) error {
	if asJSON {
		p.PrintJSON(map[string]any{"exit_code": code, "error": why})
	}
	fmt.Fprintf(p.Stderr, "wdlrun: %s\n", why)
	return Exit(code)
}

// launched describes the program that the launcher starts. The zero value is any
// executable.
type launched struct {
	print   Printer   // prints the result of a command; nil for an executable
	resumes bool      // has the flag -into, to resume in a run directory
	stdin   io.Reader // of rank 0; commands of wdlrun do not read it

	replicas int  // of each shard; with more than one the job recovers from memory
	needs    int  // ranks that it cannot do without; 0: one
	chaos    bool // it injects faults
	perHost  bool // it runs on one rank of each host
	verbatim bool // output is shown without rank numbers

	part func(body []byte) // called with what rank 0 reports of each part of its work (AboutPart), by another goroutine; nil: none. The same command continues the rest
}

// Parts returns the description of a command whose rank 0 reports each part of its work to f.
func (l launched) Parts(f func(body []byte)) launched {
	l.part = f
	return l
}

// Launch starts a program on all ranks and waits for it.
func (p *Program) Launch(c *cli.Context, command []string, what launched) error {
	if err := checkNested(p.Getenv); err != nil {
		return err
	}
	plan, err := Place(c)
	if err != nil {
		return err
	}
	if c.IsSet("min-np") && restarts(c, what.replicas) == 0 {
		return errors.New("-min-np is the minimum number of ranks of a restart: give -restarts too, such as -restarts 3")
	}
	asJSON := wantsJSON(c, what.print != nil)
	if c.Bool("plan") {
		return showPlan(plan, asJSON, p.Stdout, p.Stderr)
	}
	if what.perHost {
		plan = OneEach(plan)
	} else {
		SayRoom(cpus.RoomHere(), localRanks(plan), p.Stderr)
	}
	if err := crowded(c, plan); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	remote, err := remoteOf(c, self, p.Getenv)
	if err != nil {
		return err
	}
	if c.IsSet("net") && plan.Remote() == "" {
		fmt.Fprintln(p.Stderr, "wdlrun: -net has no effect while all ranks run on this host")
	}
	p.Progress.End()
	p.chaos = what.chaos
	p.hosts = hostFlags(c, plan)
	orders, stop := signalOrders()
	defer stop()
	p.OwnsRanks.Store(true)
	job := launcher.Job{
		Name: rank.NewKey().Hex()[:16], Plan: plan, Command: command, Dir: c.String("wdir"), Env: append(withLinks(c, os.Environ()), remote.Pass...), Stdin: what.stdin, Suspends: true, Guard: []string{self, GuardWord}, Stdout: p.Stdout, Stderr: p.Stderr,
		Merged: what.verbatim || c.String("output") == "merged", Timeout: c.Duration("timeout"), Listen: c.String("coordinator"), Orders: orders,
		Judged: printVerdict, Word: printObservation, Restarts: restarts(c, what.replicas), RestartWait: c.Duration("restart-wait"), MinRanks: minRanks(c, what.needs), Heals: what.replicas > 1, Again: p.restarted(command, what.resumes),
		Saves: saves(what.resumes, what.part != nil), Remote: remote,
	}
	if what.print != nil { // a command of wdlrun
		job.Version = Version
	}
	if job.Hosts, err = hostsOf(c); err != nil {
		return err
	}
	if what.resumes {
		steer := newSteering(remote.Agents, func(line string) { fmt.Fprintf(p.Stderr, "wdlrun: %s\n", line) })
		steer.part = what.part
		defer steer.close()
		job.Host, job.Changes, job.Changed = steer, steer.changes, changedHosts(p, c, command)
	}
	out, err := launcher.Run(c.Context, job)
	if err != nil {
		return p.unstarted(out.Code, asJSON, Unprefixed(err.Error()))
	}
	return p.ended(out, asJSON, what)
}

// rankEnv returns the environment for ranks, without variables that launch flags
// override.
func (p *Program) rankEnv(c *cli.Context) func(string) string {
	replaced := withLinks(c, nil)
	return func(name string) string {
		if slices.ContainsFunc(replaced, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
			return ""
		}
		return p.Getenv(name)
	}
}

// withLinks adds to an environment the launch flags about links between ranks (rank.Links).
func withLinks(c *cli.Context, env []string) []string {
	for _, name := range []string{"transport", "encrypt", "streams", "ports"} {
		if c.IsSet(name) {
			env = append(env, fmt.Sprintf("WDLRUN_%s=%v", strings.ToUpper(name), c.Value(name)))
		}
	}
	return env
}

// showPlan prints where the ranks would run.
func showPlan(plan launcher.Plan, asJSON bool, stdout, stderr io.Writer) error {
	plan, err := plan.Here()
	if err != nil {
		return err
	}
	if asJSON {
		_, err = fmt.Fprintf(stdout, "%s\n", plan.JSON())
		return err
	}
	SayRoom(cpus.RoomHere(), localRanks(plan), stderr)
	_, err = fmt.Fprint(stdout, plan)
	return err
}

// localRanks returns the number of ranks of a plan on this machine.
func localRanks(plan launcher.Plan) (n int) {
	for _, r := range plan.Ranks {
		if (launcher.Host{Name: r.Host}).Local() {
			n++
		}
	}
	return n
}

// SayRoom prints limits of CPU time that ranks on this machine will notice.
func SayRoom(r cpus.Room, ranks int, w io.Writer) {
	for _, note := range r.Notes(ranks) {
		fmt.Fprintf(w, "wdlrun: %s\n", note)
	}
}

// crowded rejects more ranks than this host can run well, unless flags name hosts and
// slots.
func crowded(c *cli.Context, plan launcher.Plan) error {
	np, cores := len(plan.Ranks), runtime.NumCPU()
	if np <= 16*max(cores, 8) || c.Bool("oversubscribe") || listsHosts(c) || plan.Remote() != "" {
		return nil
	}
	return fmt.Errorf("-np %d: all ranks would run on this host, which has %s: one rank per core is a good number; to start them anyway, give -oversubscribe", np, plural.Of(cores, "core"))
}

// minRanks returns the minimum number of ranks of a restart: -min-np, or needs if that is more.
func minRanks(c *cli.Context, needs int) int {
	if !c.IsSet("min-np") {
		return 0
	}
	return max(c.Int("min-np"), needs)
}

// restarts returns how often a job may fail without a new step in between. The default for
// a job with replicas is 3.
func restarts(c *cli.Context, replicas int) int {
	if replicas > 1 && !c.IsSet("restarts") {
		return 3
	}
	return c.Int("restarts")
}

// ended reports the outcome of a launched job.
func (p *Program) ended(out launcher.Outcome, asJSON bool, what launched) error {
	if out.Verdict != nil { // printed when it was given
		p.printAfter(out, p.Stderr)
		if what.part == nil {
			p.printNext(out.Verdict, p.Starts(out.Size), out.Status.RunDir)
		}
	}
	if out.GaveUp != "" {
		fmt.Fprintf(p.Stderr, "wdlrun: %s\n", out.GaveUp)
	}
	var err error
	switch {
	case what.print != nil && out.Verdict == nil && len(out.Result) > 0:
		result := out.Result
		if asJSON && out.Code != 0 {
			result = WithCode(result, out.Code, why(out))
		}
		err = what.print(p.Stdout, out.Size, asJSON, result)
	case asJSON:
		err = p.PrintJSON(failure{out.Size, out.Code, why(out), out.Elapsed.Seconds(), out.Verdict, out.Status.RunDir, out.Restarts})
	}
	var code Exit
	if out.Code != 0 && (err == nil || errors.As(err, &code)) {
		return Exit(out.Code) // for example, of the signal that stopped all
	}
	return err
}

// wantsJSON finds -json before the program's name or, for a command of wdlrun, after it.
func wantsJSON(c *cli.Context, ours bool) bool {
	if c.Bool("json") || !ours {
		return c.Bool("json")
	}
	for _, a := range c.Args().Slice() {
		if a == "-json" || a == "--json" {
			return true
		}
	}
	return false
}

// World returns, by the launch flags or the environment, the number of ranks of a launch,
// whether all are on one host, and how many are on this one.
func (p *Program) World(root *cli.Context) (ranks int, oneHost bool, here int, err error) {
	world, found, err := rank.FromEnv(p.Getenv)
	if err != nil {
		return 0, false, 0, err
	}
	if found && !root.IsSet("np") {
		return world.Size, world.LocalSize == world.Size, max(world.LocalSize, 1), nil
	}
	if err := checkNested(p.Getenv); err != nil {
		return 0, false, 0, err
	}
	placed, err := Place(root)
	if err != nil {
		return 0, false, 0, err
	}
	return len(placed.Ranks), placed.Ranks[0].LocalSize == len(placed.Ranks), localRanks(placed), nil
}

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective/tcp"
	"github.com/wdlrun/wdlrun/internal/control"
	"github.com/wdlrun/wdlrun/internal/control/restart"
	"github.com/wdlrun/wdlrun/internal/machine/cpus"
	"github.com/wdlrun/wdlrun/internal/machine/ports"
	"github.com/wdlrun/wdlrun/internal/text/nearest"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/launcher"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
)

func launchFlags() []cli.Flag {
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
		jsonFlag(),
	}
}

// executable is the action for a PROGRAM that is not a command of wdlrun.
func (p *program) executable(c *cli.Context) error {
	command := c.Args().Slice()
	if len(command) == 0 {
		if c.Bool("plan") {
			return p.launch(c, nil, launched{})
		}
		if c.NumFlags() > 0 {
			return errors.New("no PROGRAM to start; usage: wdlrun [launch flags] PROGRAM, such as wdlrun -np 2 train")
		}
		return cli.ShowAppHelp(c)
	}
	if _, err := exec.LookPath(command[0]); errors.Is(err, exec.ErrNotFound) {
		why := fmt.Sprintf("%q is neither a program of wdlrun nor an executable in PATH%s", command[0], nearest.Instead(command[0], programs(c.App)))
		return p.unstarted(127, c.Bool("json"), why)
	}
	if err := enter(c); err != nil {
		return err
	}
	return p.launch(c, command, launched{stdin: os.Stdin})
}

// unstarted reports why a program was not started, and returns the exit code.
func (p *program) unstarted(code int, asJSON bool, why string) error {
	if asJSON {
		p.printJSON(map[string]any{"exit_code": code, "error": why})
	}
	fmt.Fprintf(p.stderr, "wdlrun: %s\n", why)
	return exit(code)
}

// programs returns the names of wdlrun's commands.
func programs(app *cli.App) (names []string) {
	for _, c := range app.Commands {
		names = append(names, c.Name)
	}
	return names
}

// launched describes the program that the launcher starts. The zero value is any
// executable.
type launched struct {
	print   printer   // prints the result of a command; nil for an executable
	resumes bool      // has the flag -into, to resume in a run directory
	stdin   io.Reader // of rank 0; commands of wdlrun do not read it

	replicas int  // of each shard; with more than one the job recovers from memory
	needs    int  // ranks that it cannot do without; 0: one
	chaos    bool // it injects faults
	perHost  bool // it runs on one rank of each host
	verbatim bool // output is shown without rank numbers
}

// onRank is called on every rank to run a command. The value it returns on rank 0 is the
// result of the command.
type onRank func(ctx context.Context, c *cli.Context, m *member.Member, warn func(string)) (any, error)

// printer prints the result of a command as text or as JSON.
type printer func(w io.Writer, np int, asJSON bool, result []byte) error

// either returns a printer that writes the result unchanged as JSON, or calls people to write
// it as text.
func either(people func(w io.Writer, np int, result []byte) error) printer {
	return func(w io.Writer, np int, asJSON bool, result []byte) error {
		if !asJSON {
			return people(w, np, result)
		}
		_, err := fmt.Fprintf(w, "%s\n", result)
		return err
	}
}

// everywhere runs a command on all ranks. In a rank it does the work; otherwise it checks
// the flags and starts the ranks.
func (p *program) everywhere(c *cli.Context, check func(*cli.Context) error, work onRank, print printer) error {
	world, found, err := rank.FromEnv(p.getenv)
	if err != nil {
		return err
	}
	if found && !c.IsSet("np") {
		return p.beRank(c, world, work, print)
	}
	if _, err := (member.Options{}).Completed(p.rankEnv(c)); err != nil {
		return err
	}
	root := c.Lineage()[len(c.Lineage())-2] // the last is an empty parent
	p.progress.begin(c.Command.Name, 0, "") // check may verify a checkpoint
	if err := errors.Join(enter(root), check(c)); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("the path of the program is unknown: %w", err)
	}
	return p.launch(root, ranksCommand(self, root), launchedAs(c, print))
}

// ranksCommand returns the command of the ranks of a command.
func ranksCommand(self string, root *cli.Context) []string {
	return append([]string{self, fmt.Sprintf("-json=%t", root.Bool("json"))}, root.Args().Slice()...)
}

// launchedAs describes a command of wdlrun that the launcher starts.
func launchedAs(c *cli.Context, print printer) launched {
	return launched{
		print: print, resumes: defined(c.Command.Flags, "into"), replicas: c.Int("replicas"), needs: needed(c), chaos: c.String("chaos") != "",
		perHost:  c.Command.Name == "doctor" || c.Command.Name == "gather",
		verbatim: c.String("log-format") == jsonLog || c.Command.Name == "bench" || c.Command.Name == "predict" && c.String("out") == stdoutName, // only rank 0 writes: lines as they are measured, or predictions
	}
}

// checkNested returns an error if another launcher started this process as one of several, each of
// which would start a job of its own.
func checkNested(getenv func(string) string) error {
	w, found, err := rank.FromEnv(getenv)
	if err != nil || !found || w.Size == 1 {
		return err
	}
	return fmt.Errorf("this process is rank %d of %d that %s started (%s), and each would start a job of its own: leave out -np, and start programs other than wdlrun's commands without wdlrun; or set WDLRUN_SIZE=1 if that many jobs are meant", w.Rank, w.Size, w.By, w.Named)
}

// beRank runs one rank of a command.
func (p *program) beRank(c *cli.Context, world rank.World, work onRank, print printer) error {
	if err := ofLauncher(c, world); err != nil {
		return err
	}
	p.progress.end()
	p.foreign = !world.Launched
	opts := control.Options{Version: version, Timeout: c.Duration("timeout")}
	hosts := world.Rank == 0 && !world.Launched
	if hosts {
		opts.Host = launcher.NewProgress(p.stderr)
	}
	if p.foreign {
		if world.LocalRank == 0 { // each rank may be bound to CPUs of its own
			sayRoom(cpus.Room{Quota: cpus.RoomHere().Quota}, world.LocalSize, p.stderr)
		}
		opts.Word = func(line string) { go printObservation(line, p.stderr) }
	}
	warn := func(line string) { fmt.Fprintf(p.stderr, "wdlrun: %s\n", line) }
	join := member.Options{Control: opts, Encrypt: c.Bool("encrypt"), Warn: warn}
	if c.IsSet("transport") { // the rank was started by mpirun, srun or torchrun
		join.Transport = c.String("transport")
	}
	if c.IsSet("streams") {
		join.Streams = c.Int("streams")
	}
	join.Control.Ports = c.String("ports")
	defer followLauncher(world, p.getenv, p.stderr)()
	m, err := member.Join(c.Context, p.getenv, join)
	if err != nil {
		return err
	}
	defer m.Close()
	result, err := work(c.Context, c, m, warn)
	if err != nil {
		return p.failed(m, m.Fail(err))
	}
	b, err := json.Marshal(result)
	if err != nil {
		return err
	}
	if err := m.Done(b); err != nil || world.Launched {
		return err
	}
	if !hosts {
		return likeRank0(result)
	}
	return print(p.stdout, world.Size, asJSON(c), b)
}

// likeRank0 makes the other ranks exit with the code of rank 0. A foreign launcher may
// check each rank by itself, and restart one that has not ended with 0.
func likeRank0(result any) error {
	r, trains := result.(report.Result)
	if !trains {
		return nil
	}
	var code exit
	if err := unfinished("wdlrun", r); err == nil || errors.As(err, &code) {
		return err
	}
	return exit(1)
}

// ofLauncher rejects launch flags that only wdlrun's launcher implements if mpirun, srun or
// torchrun has started the rank.
func ofLauncher(c *cli.Context, world rank.World) error {
	if world.Launched {
		return nil
	}
	for _, name := range []string{"restarts", "restart-wait", "min-np", "H", "hostfile", "oversubscribe", "map", "bind", "mem", "plan", "output"} {
		if c.IsSet(name) {
			return fmt.Errorf("-%s has no effect on ranks that another launcher has started: use the option of that launcher, or start them with wdlrun -np N", name)
		}
	}
	return nil
}

// failed prints the verdict once per job: the launcher does if there is one, otherwise
// rank 0. If rank 0 is gone together with the coordinator, each remaining rank prints it.
func (p *program) failed(m *member.Member, err error) error {
	var v *rank.Verdict
	switch {
	case !errors.As(err, &v):
		return err
	case m.World.Launched, m.World.Rank != 0 && v.Kind != rank.Gone:
		return exit(1)
	}
	printVerdict(v, p.stderr)
	if m.World.Rank == 0 { // the launcher keeps more if there is one
		keepFailure(launcher.Outcome{Verdict: v, Status: rank.Status{RunDir: p.runDir}}, p.stderr)
	}
	printHint(v, "", p.stderr)
	if m.World.Rank <= 1 { // if rank 0 is gone, only one remaining rank prints it
		p.printNext(v, p.starts(m.World.Size), p.runDir)
	}
	return exit(1)
}

// printVerdict prints why a group ended, as soon as that is known.
func printVerdict(v *rank.Verdict, w io.Writer) {
	fmt.Fprintf(w, "wdlrun: %v\n", v)
	for _, line := range v.Others {
		fmt.Fprintf(w, "wdlrun:   %s\n", line)
	}
}

// printObservation prints an observation that may lead to a verdict.
func printObservation(line string, w io.Writer) { fmt.Fprintf(w, "wdlrun: %s\n", line) }

// printHint prints the probable cause of a verdict, after the output of the ranks: the
// injected fault, if there was one.
func printHint(v *rank.Verdict, purpose string, w io.Writer) {
	if purpose != "" {
		fmt.Fprintf(w, "wdlrun: this fault was injected: %s\n", purpose)
	} else if hint := v.Hint(); hint != "" {
		fmt.Fprintf(w, "wdlrun: %s\n", hint)
	}
}

// printAfter prints which files of a failed group are kept, and the hint.
func (p *program) printAfter(out launcher.Outcome, w io.Writer) {
	if kept := keepFailure(out, w); kept != "" {
		fmt.Fprintf(w, "wdlrun: kept: %s\n", kept)
	}
	printHint(out.Verdict, p.injectedFault(out), w)
}

// printNext prints the command that resumes a failed job.
func (p *program) printNext(v *rank.Verdict, command, runDir string) {
	if runDir == "" {
		return
	}
	if text := v.String(); strings.Contains(text, train.NothingLeft) || strings.Contains(text, report.Diverges) {
		return // the same command would end in the same way
	}
	own := v.Kind == rank.Failed // the cause contains advice, and recurs until the user follows it
	switch found, _ := checkpoint.List(filepath.Join(runDir, checkpoint.Folder)); {
	case own && len(found) > 0:
		fmt.Fprintf(p.stderr, "wdlrun: after you fix this, resume from the last checkpoint: %s train -resume %s\n", command, quotedPath(runDir))
	case len(found) > 0:
		fmt.Fprintf(p.stderr, "wdlrun: to resume from the last checkpoint: %s train -resume %s\n", command, quotedPath(runDir))
	case p.hosts != "" && !isDir(filepath.Join(runDir, checkpoint.Folder)): // the ranks may have it on disks of their own
		fmt.Fprintf(p.stderr, "wdlrun: to resume from the last checkpoint on the hosts, if there is one: %s train -resume %s\n", command, quotedPath(runDir))
	case !own:
		fmt.Fprintf(p.stderr, "wdlrun: there is no checkpoint yet in %s: start again; -set train.checkpoint.every_steps=N saves more often\n", runDir)
	}
}

// launch starts a program on all ranks and waits for it.
func (p *program) launch(c *cli.Context, command []string, what launched) error {
	if err := checkNested(p.getenv); err != nil {
		return err
	}
	plan, err := place(c)
	if err != nil {
		return err
	}
	if c.IsSet("min-np") && restarts(c, what.replicas) == 0 {
		return errors.New("-min-np is the minimum number of ranks of a restart: give -restarts too, such as -restarts 3")
	}
	asJSON := wantsJSON(c, what.print != nil)
	if c.Bool("plan") {
		if plan, err = plan.Here(); err != nil {
			return err
		}
		if asJSON {
			_, err = fmt.Fprintf(p.stdout, "%s\n", plan.JSON())
			return err
		}
		sayRoom(cpus.RoomHere(), localRanks(plan), p.stderr)
		_, err = fmt.Fprint(p.stdout, plan)
		return err
	}
	if what.perHost {
		plan = oneEach(plan)
	} else {
		sayRoom(cpus.RoomHere(), localRanks(plan), p.stderr)
	}
	if err := crowded(c, plan); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	remote, err := remoteOf(c, self, p.getenv)
	if err != nil {
		return err
	}
	if c.IsSet("net") && plan.Remote() == "" {
		fmt.Fprintln(p.stderr, "wdlrun: -net has no effect while all ranks run on this host")
	}
	p.progress.end()
	p.chaos = what.chaos
	p.hosts = hostFlags(c, plan)
	orders, stop := signalOrders()
	defer stop()
	p.ranks.Store(true)
	job := launcher.Job{
		Name: rank.NewKey().Hex()[:16], Plan: plan, Command: command, Dir: c.String("wdir"), Env: append(withLinks(c, os.Environ()), remote.Pass...), Stdin: what.stdin, Suspends: true, Guard: []string{self, guardWord}, Stdout: p.stdout, Stderr: p.stderr,
		Merged: what.verbatim || c.String("output") == "merged", Timeout: c.Duration("timeout"), Listen: c.String("coordinator"), Orders: orders,
		Judged: printVerdict, Word: printObservation, Restarts: restarts(c, what.replicas), RestartWait: c.Duration("restart-wait"), MinRanks: minRanks(c, what.needs), Heals: what.replicas > 1, Again: p.again(command, what.resumes),
		Saves: saves(what.resumes), Remote: remote,
	}
	if what.print != nil { // a command of wdlrun
		job.Version = version
	}
	if job.Hosts, err = hostsOf(c); err != nil {
		return err
	}
	if what.resumes {
		steer := newSteering(remote.Agents, func(line string) { fmt.Fprintf(p.stderr, "wdlrun: %s\n", line) })
		defer steer.close()
		job.Host, job.Changes, job.Changed = steer, steer.changes, turned(p, c, command)
	}
	out, err := launcher.Run(c.Context, job)
	if err != nil {
		return p.unstarted(out.Code, asJSON, unprefixed(err.Error()))
	}
	return p.ended(out, asJSON, what.print)
}

// rankEnv returns the environment for ranks, without variables that launch flags
// override.
func (p *program) rankEnv(c *cli.Context) func(string) string {
	replaced := withLinks(c, nil)
	return func(name string) string {
		if slices.ContainsFunc(replaced, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
			return ""
		}
		return p.getenv(name)
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

// localRanks returns the number of ranks of a plan on this machine.
func localRanks(plan launcher.Plan) (n int) {
	for _, r := range plan.Ranks {
		if (launcher.Host{Name: r.Host}).Local() {
			n++
		}
	}
	return n
}

// sayRoom prints limits of CPU time that ranks on this machine will notice.
func sayRoom(r cpus.Room, ranks int, w io.Writer) {
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

// place checks the launch flags and assigns ranks to hosts.
func place(c *cli.Context) (plan launcher.Plan, err error) {
	hosts, err := hostsOf(c)
	if err != nil {
		return plan, err
	}
	if np := c.Int("np"); c.IsSet("np") && np < 1 {
		return plan, fmt.Errorf("-np %d: at least one rank is needed", np)
	}
	by, each, err := shareOf(c)
	if err != nil {
		return plan, err
	}
	if plan, err = launcher.Place(c.Int("np"), hosts, c.Bool("oversubscribe"), by); err != nil {
		return plan, err
	}
	plan.Each = each
	if n := c.Int("min-np"); c.IsSet("min-np") && (n < 1 || n > len(plan.Ranks)) {
		return plan, fmt.Errorf("-min-np %d: must be within 1 … %d, the number of ranks", n, len(plan.Ranks))
	}
	if n := c.Int("restarts"); n < 0 {
		return plan, fmt.Errorf("-restarts %d: must not be negative", n)
	}
	if d := c.Duration("restart-wait"); d <= 0 {
		return plan, fmt.Errorf("-restart-wait %v: must be positive, such as 10m", d)
	}
	if err := rank.CheckTimeout(c.Duration("timeout")); err != nil {
		return plan, fmt.Errorf("-timeout: %w, such as 30s", err)
	}
	if t := c.String("transport"); (member.Options{Transport: t}).Validate() != nil {
		return plan, fmt.Errorf("-transport %q: there are %s, %s and %s", t, member.Auto, member.Shared, member.TCP)
	}
	if n := c.Int("streams"); n < 1 || n > tcp.MaxStreams {
		return plan, fmt.Errorf("-streams %d: 1 to %d", n, tcp.MaxStreams)
	}
	if _, err := ports.Parse(c.String("ports")); err != nil {
		return plan, fmt.Errorf("-ports %w", err)
	}
	if c.Bool("encrypt") && c.String("transport") == member.Shared {
		return plan, errors.New("-encrypt encrypts tcp links, and -transport shm uses none: leave one of them out")
	}
	if out := c.String("output"); out != "prefixed" && out != "merged" {
		return plan, fmt.Errorf("-output %q is neither prefixed nor merged", out)
	}
	return plan, nil
}

// again returns a function that reports a failure that the job survives and returns the
// command that continues: in the run directory, if there is one and the command supports
// it.
func (p *program) again(command []string, resumes bool) func(launcher.Failure) []string {
	next := command
	return func(f launcher.Failure) []string {
		var r report.Result
		switch {
		case f.Verdict == nil && (json.Unmarshal(f.Result, &r) != nil || !r.Stopped): // a host has left at the end
			return nil
		case f.Verdict != nil && !f.Next.Waits:
			p.printAfter(f.Outcome, f.Stderr)
		}
		dir, from := f.Status.RunDir, ""
		if resumes && dir != "" {
			next, from = append(slices.Clip(command), "-into", dir), resumesFrom(dir, p.hosts != "")
		}
		if f.Next.Plan == restart.Rejoin {
			from = ", and training resumes from memory"
		}
		fmt.Fprintf(f.Stderr, "wdlrun: %s%s\n", f.Next.Text, from)
		return next
	}
}

// saves reports that an interrupted training still writes its checkpoint. Programs that
// cannot continue in a run directory are killed instead.
func saves(resumes bool) func(rank.Status, io.Writer) {
	if !resumes {
		return nil
	}
	return func(s rank.Status, w io.Writer) {
		fmt.Fprintf(w, "wdlrun: stopping: finishing step %d and writing its checkpoint (%s); repeat the signal to end at once: -resume %s then continues from the previous checkpoint\n",
			s.Step, cmp.Or(s.Phase, "at work"), cmp.Or(s.RunDir, "RUN"))
	}
}

// resumesFrom describes the point from which a training resumes. elsewhere reports that ranks
// run on other hosts.
func resumesFrom(runDir string, elsewhere bool) string {
	root := filepath.Join(runDir, checkpoint.Folder)
	c, _, err := checkpoint.Latest(root)
	if err != nil && elsewhere && !isDir(root) { // the ranks may have it on disks of their own
		return ", from the last checkpoint on the hosts, if there is one"
	}
	if err != nil {
		return ", from the beginning: there is no checkpoint yet"
	}
	return fmt.Sprintf(", from the checkpoint of step %d", c.Step())
}

// ended reports the outcome of a launched job.
func (p *program) ended(out launcher.Outcome, asJSON bool, print printer) error {
	if out.Verdict != nil { // printed when it was given
		p.printAfter(out, p.stderr)
		p.printNext(out.Verdict, p.starts(out.Size), out.Status.RunDir)
	}
	if out.GaveUp != "" {
		fmt.Fprintf(p.stderr, "wdlrun: %s\n", out.GaveUp)
	}
	var err error
	switch {
	case print != nil && out.Verdict == nil && len(out.Result) > 0:
		result := out.Result
		if asJSON && out.Code != 0 {
			result = withCode(result, out.Code, why(out))
		}
		err = print(p.stdout, out.Size, asJSON, result)
	case asJSON:
		err = p.printJSON(failure{out.Size, out.Code, why(out), out.Elapsed.Seconds(), out.Verdict, out.Status.RunDir, out.Restarts})
	}
	var code exit
	if out.Code != 0 && (err == nil || errors.As(err, &code)) {
		return exit(out.Code) // for example, of the signal that stopped all
	}
	return err
}

// why returns the reason for an exit code in one line, "" for 0.
func why(out launcher.Outcome) string {
	switch {
	case out.Code == 0:
		return ""
	case out.Verdict != nil:
		return out.Verdict.String()
	}
	if out.Code > 128 {
		return fmt.Sprintf("ended by a signal: %v", syscall.Signal(out.Code-128))
	}
	return fmt.Sprintf("ended with exit code %d", out.Code)
}

// withCode adds exit code and error to a result that is a JSON object without them.
func withCode(result []byte, code int, why string) []byte {
	var object map[string]json.RawMessage
	if json.Unmarshal(result, &object) != nil || len(object) == 0 || object["exit_code"] != nil {
		return result
	}
	more, _ := json.Marshal(map[string]any{"exit_code": code, "error": why}) // cannot fail
	result = bytes.TrimSuffix(bytes.TrimSpace(result), []byte("}"))
	return slices.Concat(result, []byte(","), more[1:])
}

// failure is the JSON line of a job without a result: one that failed, or any executable.
type failure struct {
	WorldSize int           `json:"world_size"`
	ExitCode  int           `json:"exit_code"`
	Error     string        `json:"error,omitempty"`
	Seconds   float64       `json:"seconds"`
	Verdict   *rank.Verdict `json:"verdict,omitempty"`
	RunDir    string        `json:"run_dir,omitempty"`
	Restarts  int           `json:"restarts,omitempty"`
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

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/machine/cpus"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/model/plan"
	"github.com/wdlrun/wdlrun/internal/model/slots"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/trace"
)

func trainCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "train",
		Usage:     "train a model, evaluate it and save it in a run directory",
		UsageText: "wdlrun [launch flags] train [flags]",
		Description: `Trains the model that the configuration describes, evaluates it, and saves it in a new run
directory with the configuration, metrics, checkpoints and a timeline of each rank. Without
-config it trains on UCI Adult, which is built in. To write a configuration for your own files:
wdlrun init -data FILE. -resume continues a training, on any number of ranks. -from begins a
new training with the rows and layers of another: on the data of the next day, or with other
features. It prints what it took.

Ctrl-C, SIGTERM             write a checkpoint after the current step and stop
a second Ctrl-C             stop at once
SIGUSR1 to the launcher     write a checkpoint and continue
SIGUSR2 to the launcher     write the timelines and continue; see: wdlrun trace --help

Examples:
   wdlrun -np 2 train
   wdlrun -np 4 train -config ctr.yaml -set train.epochs=3 -set train.seed=7
   wdlrun -np 8 train -resume runs/20261121-101500
   wdlrun -np 64 -H a:32,b:32 train -config ctr.yaml -plan
   wdlrun -np 8 -restarts 3 -min-np 6 train     restart after failures
   wdlrun -np 8 train -replicas 2               continue from memory if a rank is lost
   wdlrun -np 8 train -backup 1                 do not wait for the slowest microbatch
   wdlrun -np 4 train -config ctr.yaml -by dt       train on each new folder dt=VALUE
   mpirun -np 4 wdlrun train -config ctr.yaml`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "config", Usage: "read the configuration from `FILE` (YAML); see: wdlrun help config"},
			&cli.StringSliceFlag{Name: "set", Usage: "override one key of the configuration: `KEY=VALUE`, such as train.epochs=3; may be repeated"},
			&cli.IntFlag{Name: "threads", Usage: "use `NUMBER` threads in each rank: sets train.threads", DefaultText: "the configuration's"},
			maxBadFlag(),
			&cli.StringFlag{Name: "resume", Usage: "continue the training in run directory `DIR`; a checkpoint DIR starts a new run directory; auto takes the newest run in -out, if it has a checkpoint; latest takes the one that finished last"},
			&cli.StringFlag{Name: "from", Usage: "begin a new training with the model in run directory or checkpoint `DIR`, or latest, the run that finished last in -out; the configuration may have other data and features"},
			replicasFlag(),
			&cli.StringFlag{Name: "by", Usage: "train partition after partition by `COLUMN`, such as dt (folders dt=VALUE) or dt,hour, or FIELD=WIDTH of a time, such as time=1d; continues with the latest model in -out, and only on what is new"},
			&cli.StringFlag{Name: "again", Usage: "with -by: first train on these partitions again, `VALUE,…`"},
			&cli.StringFlag{Name: "day", Hidden: true, Usage: "the partition of this training, `JSON`, which train -by gives"},
			&cli.StringFlag{Name: "into", Hidden: true, Usage: "run `DIR` of an earlier generation of this job, which the launcher gives after a failure"},
			&cli.DurationFlag{Name: "disk-patience", Value: time.Minute, Usage: "a disk that several hosts share may show what another host has written up to `DURATION` late"},
			&cli.StringFlag{Name: "survey", Hidden: true, Usage: "`DIR` of surveys that trainings of a sweep share"},
			&cli.StringFlag{Name: "out", Value: runsFolder, Usage: "create the new run directory in `DIR`"},
			&cli.StringFlag{Name: "note", Usage: "store `TEXT` with the run; wdlrun runs shows it"},
			&cli.StringFlag{Name: "tag", Usage: "store `TAGS`, separated by commas, with the run; wdlrun runs -where tags=TAG selects by them"},
			&cli.BoolFlag{Name: "plan", Usage: "estimate the rows, memory and network traffic of every table and rank; do not train"},
			jsonFlag(),
		}, slices.Concat(gpuFlags(), liveFlags(), logFlags(), toleranceFlags())...),
		Action: func(c *cli.Context) error {
			if err := logRecords(p, c); err != nil {
				return err
			}
			if c.IsSet("by") && !c.IsSet("day") {
				return walkForward(p, c)
			}
			if c.IsSet("again") && !c.IsSet("day") {
				return errors.New("-again names partitions that train -by trains on again: give -by too")
			}
			if c.Bool("plan") {
				return p.planTrain(c)
			}
			return p.everywhere(c, p.checkTrain, p.trainRank, trained(p))
		},
	}
}

// checkTrain rejects invalid flags before any rank is started.
func (p *program) checkTrain(c *cli.Context) error {
	opt, ranks, _, err := p.launchOptions(c)
	if err != nil {
		return err
	}
	if opt.Here > 0 {
		if err := rundir.CheckPlace(opt.Out, opt.Resume); err != nil {
			return err
		}
	}
	if err := checkOptions(c, opt, ranks, train.Check); err != nil || opt.Here == 0 {
		return err
	}
	return train.CheckTiers(opt)
}

// checkOptions calls check, which is train.Check or train.CheckReplay. If the training may use GPUs and only wdlrun-gpu supports them, it
// continues as wdlrun-gpu. If there is none, train.device: gpu is an error, and with auto the
// training continues here.
func checkOptions(c *cli.Context, opt train.Options, ranks int, check func(context.Context, train.Options, int) error) error {
	err := check(c.Context, opt, ranks)
	if !errors.Is(err, train.ErrNoDevices) {
		return err
	}
	asked := "train.device: gpu"
	if c.IsSet("device") {
		asked = "-device gpu"
	}
	opt.Devices = train.NoDevices{Reason: continueOnGPU(c.Context, asked)}
	return check(c.Context, opt, ranks)
}

// assigned reports whether another launcher started the ranks and may have assigned devices to each.
func assigned(getenv func(string) string, root *cli.Context) bool {
	_, launched, _ := rank.FromEnv(getenv) // world has checked the environment
	return launched && !root.IsSet("np")
}

// launchOptions parses the flags of a training and of its launch before any rank runs. It returns
// the number of ranks and whether all are on one host.
func (p *program) launchOptions(c *cli.Context) (opt train.Options, ranks int, oneHost bool, err error) {
	root := c.Lineage()[len(c.Lineage())-2] // the last is an empty parent
	ranks, oneHost, here, err := p.world(root)
	if err != nil {
		return opt, 0, false, err
	}
	if err := tolerable(c, ranks); err != nil {
		return opt, 0, false, err
	}
	if err := checkLive(c); err != nil {
		return opt, 0, false, err
	}
	if _, err := recorder(c); err != nil {
		return opt, 0, false, err
	}
	if opt, err = trainOptions(c); err == nil {
		err = tolerant(c, &opt)
	}
	if err == nil {
		opt.Config, err = loadConfig(c)
	}
	if err != nil {
		return opt, 0, false, err
	}
	opt.Replicas, opt.Here, opt.Away = c.Int("replicas"), here, here < ranks
	return opt, ranks, oneHost, useGPUs(c, &opt, gpuChoice{assigned: assigned(p.getenv, root)})
}

// world returns, by the launch flags or the environment, the number of ranks of a launch,
// whether all are on one host, and how many are on this one.
func (p *program) world(root *cli.Context) (ranks int, oneHost bool, here int, err error) {
	world, found, err := rank.FromEnv(p.getenv)
	if err != nil {
		return 0, false, 0, err
	}
	if found && !root.IsSet("np") {
		return world.Size, world.LocalSize == world.Size, max(world.LocalSize, 1), nil
	}
	if err := checkNested(p.getenv); err != nil {
		return 0, false, 0, err
	}
	placed, err := place(root)
	if err != nil {
		return 0, false, 0, err
	}
	return len(placed.Ranks), placed.Ranks[0].LocalSize == len(placed.Ranks), localRanks(placed), nil
}

// planTrain plans, in one process, a training on the ranks of the launch flags or the
// environment.
func (p *program) planTrain(c *cli.Context) error {
	opt, ranks, oneHost, err := p.launchOptions(c)
	if err != nil {
		return err
	}
	if err := checkOptions(c, opt, ranks, train.Check); err != nil {
		return err
	}
	if world, found, _ := rank.FromEnv(p.getenv); found && world.Rank != 0 {
		return nil
	}
	sayRoom(cpus.RoomHere(), opt.Here, p.stderr)
	opt.Warn = func(line string) { fmt.Fprintf(p.stderr, "wdlrun: %s\n", line) }
	opt.Say = func(line string) { fmt.Fprintln(p.stderr, line) }
	planned, err := train.Estimate(c.Context, opt, ranks, oneHost && c.String("transport") != member.TCP)
	if err != nil {
		return err
	}
	if asJSON(c) {
		return p.printJSON(planned)
	}
	_, err = fmt.Fprint(p.stdout, planned)
	return err
}

// memberHosts returns the host of each rank.
func memberHosts(m *member.Member) (all []string) {
	for _, member := range m.Session.Members() {
		all = append(all, member.Host)
	}
	return all
}

// trainRank runs one rank of the job.
func (p *program) trainRank(ctx context.Context, c *cli.Context, m *member.Member, warn func(string)) (any, error) {
	opt, err := trainOptions(c)
	if err != nil {
		return nil, err
	}
	if err := tolerant(c, &opt); err != nil {
		return nil, err
	}
	if m.World.Rank == 0 { // the other ranks, on other hosts perhaps, get it from there
		if opt.Config, err = loadConfig(c); err != nil {
			return nil, err
		}
	}
	if opt.Replicas = c.Int("replicas"); opt.Replicas > 1 && !m.World.Launched {
		return nil, errors.New("-replicas: the ranks must be started by wdlrun -np, which starts those that are lost again")
	}
	opt.Read = m.World.Launched             // the launcher has read it in checkTrain
	opt.Began = func() { m.Session.Beat() } // the launcher needs the directory if the job restarts
	if err := useGPUs(c, &opt, gpuChoice{member: m}); err != nil {
		return nil, err
	}
	opt.Kill = func() { syscall.Kill(os.Getpid(), syscall.SIGKILL) }
	opt.Peers = peers(m, p.getenv)
	opt.DiskPatience = c.Duration("disk-patience")
	if m.World.Launched {
		opt.Job = m.World.Job
	}
	if opt.Job != "" && m.World.Rank == 0 && m.World.Generation > 0 && opt.Again == "" {
		opt.Again = rundir.Of(opt.Out, opt.Job) // rank 0 died before the launcher received it
	}
	opt.Warn, opt.Say = warn, func(line string) { fmt.Fprintln(p.stderr, line) }
	if line := nothingToResume(c.String("resume"), m.World, opt); line != "" && m.World.Rank == 0 {
		opt.Say(line)
	}
	log, err := logged(p, c, m, &opt)
	if err != nil {
		return nil, err
	}
	defer log.end(&opt)
	show, err := showLive(c, m, &opt)
	if err != nil {
		return nil, err
	}
	rec, err := recorder(c)
	if err != nil {
		return nil, err
	}
	var memory *train.Memory // of the job in the previous generation
	for {
		opt.Generation = m.World.Generation
		job := train.NewJob(m.Comm, rec, opt)
		job.Remember(memory)
		memory = nil // the job frees it when it can
		show.watch(job.Status)
		log.watch(job.Status)
		result, err := p.run(ctx, m, rec, job)
		if err = unusable(c, job.Status().RunDir, err); err == nil || opt.Replicas < 2 {
			show.end(result, err)
			return result, err
		}
		memory = job.Leave(err)
		if err := m.Rejoin(ctx, err); err != nil {
			show.end(result, err)
			return nil, err
		}
	}
}

// unusable adds to an error about a record the commands that list and skip all such
// records. The configuration in the run directory includes -set.
func unusable(c *cli.Context, runDir string, err error) error {
	var f *record.Fault
	if !errors.As(err, &f) {
		return err
	}
	check := "wdlrun data check " + quotedPath(f.File)
	switch {
	case c.IsSet("config") && !c.IsSet("set"):
		check = "wdlrun data check -config " + quotedPath(c.String("config"))
	case runDir != "":
		check = "wdlrun data check -config " + quotedPath(filepath.Join(runDir, rundir.FileConfig))
	}
	err = fmt.Errorf("%w; to see all such records: %s; to leave up to N of them out: train -max-bad N", err, check)
	return &rank.PermanentError{Err: err} // a restart would read the record again
}

// run runs the job in one generation of the group.
func (p *program) run(ctx context.Context, m *member.Member, rec *trace.Recorder, job *train.Job) (report.Result, error) {
	m.Session.Watch(job.Status)
	defer p.requests(m.Session, job)()
	result, err := job.Run(ctx)
	p.runDir = job.Status().RunDir
	if err != nil && !plain(err) {
		var last bytes.Buffer
		if rec.WriteLast(&last, failureSpans) == nil {
			m.Session.Report(aboutTrace, last.Bytes())
		}
		if lost := job.LastSteps(); lost != nil {
			fmt.Fprintf(p.stderr, "wdlrun: the timeline of rank %d is not written: %v\n", m.World.Rank, lost)
		}
	}
	return result, err
}

// plain reports whether an error concerns only its rank and is complete, such as a record
// that cannot be read. Errors of collective calls are not plain: there the state of every
// rank matters.
func plain(err error) bool {
	var lost *collective.LostError
	var mismatch *collective.MismatchError
	var abort *collective.AbortError
	var limit *collective.LimitError
	var share *collective.ShareError
	return !errors.As(err, &lost) && !errors.As(err, &mismatch) && !errors.As(err, &abort) && !errors.As(err, &limit) && !errors.As(err, &share)
}

// failureSpans is the number of trace spans per rank that are saved after a failure, about
// a hundred steps.
const failureSpans = 1000

// traceSpans is the number of spans kept of a rank's timeline: about the last ten thousand
// steps, 1.5 MB of which .9 MB are used.
const traceSpans = 1 << 16

// trained returns the printer of the result of a training.
func trained(p *program) printer {
	return func(w io.Writer, np int, asJSON bool, result []byte) error {
		return printTrained(p, w, np, asJSON, result)
	}
}

// printTrained prints a report.Result. A model that could not be saved is an error in both
// formats.
func printTrained(p *program, w io.Writer, np int, asJSON bool, result []byte) error {
	var r report.Result
	if err := json.Unmarshal(result, &r); err != nil {
		return err
	}
	err := unfinished(p.starts(np), r)
	switch {
	case !asJSON:
		printTraining(w, r)
		printRunDir(w, p.starts(np), r)
	case r.Stopped:
		fmt.Fprintf(w, "%s\n", withCode(result, stoppedCode, fmt.Sprintf("stopped after step %d, as asked", r.Steps)))
	case errors.Is(err, exit(gateCode)):
		fmt.Fprintf(w, "%s\n", withCode(result, gateCode, gated(r)))
	case err != nil:
		fmt.Fprintf(w, "%s\n", withCode(result, 1, err.Error()))
	default:
		fmt.Fprintf(w, "%s\n", result)
	}
	return err
}

// unfinished returns why a training with a result is not finished. launcher is the
// beginning of the command that resumes it.
func unfinished(launcher string, r report.Result) error {
	switch {
	case r.LastCheckpoint != "":
		return afterwards{fmt.Errorf("the trained model could not be saved (see above), %s is the last one: free some space and resume from it: %s train -resume %s",
			filepath.Base(r.LastCheckpoint), launcher, quotedPath(r.RunDir))}
	case r.Checkpoint == "":
		return afterwards{errors.New("the trained model could not be saved (see above): free some space there or choose another place with -out, and train again")}
	case r.Stopped:
		return exit(stoppedCode)
	case r.Gate.Closed():
		return exit(gateCode)
	}
	return nil
}

// gateCode is the exit code of a training whose model train.gate rejects.
const gateCode = 3

// gated describes the comparison of a model with the one before it.
func gated(r report.Result) string {
	if g := r.Gate; g.Closed() {
		return fmt.Sprintf("rejected by train.gate: %s; the run is kept, and latest is not moved", g.Rejected)
	}
	return fmt.Sprintf("accepted by train.gate: no worse than %s", r.Gate.From)
}

// stoppedCode is the exit code of a training stopped by a signal to a rank: 128 + SIGTERM,
// so that other launchers do not count the rank as finished.
const stoppedCode = 143

func printTraining(w io.Writer, r report.Result) {
	if r.Stopped {
		fmt.Fprintf(w, "stopped after step %d, as asked\n", r.Steps)
		return
	}
	if r.Steps > r.Since {
		since, steps, samples := "", r.Steps, r.Samples
		switch {
		case r.Began > 0 && r.Began == r.Since:
			steps, samples = r.Steps-r.Began, r.NewSamples
			since = fmt.Sprintf(", after the %s of the model that it began with", plural.Of(int(r.Began), "step"))
		case r.Since > 0:
			since = fmt.Sprintf(", of them %d after step %d", r.NewSamples, r.Since)
		}
		fmt.Fprintf(w, "trained %d samples in %s%s: %.1f s, %.0f samples/s on %s (%.1f %% waiting for input); %.1f s in all\n",
			samples, plural.Of(int(steps), "step"), since, r.TrainSeconds, r.SamplesPerSecond, plural.Of(r.WorldSize, "rank"), 100*r.InputWaitShare, r.Seconds)
		reading(w, r)
	} else {
		fmt.Fprintf(w, "nothing left to train after %s%s\n", plural.Of(int(r.Steps), "step"), nothingLeft(r))
	}
	if r.Spans > 0 {
		fmt.Fprintf(w, "stream %s, ended: %s\n", plural.Of(int(r.Spans), "span"), r.Ended)
		fmt.Fprintf(w, "train  %s %.4f in the last span\n", lossName(r), r.TrainLogLoss)
	} else {
		fmt.Fprintf(w, "train  %s %.4f in the last epoch\n", lossName(r), r.TrainLogLoss)
	}
	if r.Improving != "" {
		fmt.Fprintf(w, "       ended at the limit of train.epochs while the validation %s still improved: raise train.epochs\n", r.Improving)
	}
	unknown(w, r.TrainUnknown, 0, "are treated as unknown, because they are rare")
	if r.Valid != nil {
		epoch := ""
		if r.BestEpoch > 0 {
			epoch = fmt.Sprintf("   (epoch %d, the best)", r.BestEpoch)
		}
		if r.BestStep > 0 {
			epoch = fmt.Sprintf("   (step %d, the best)", r.BestStep)
		}
		evaluated(w, "valid", r.Valid, epoch)
	}
	printGate(w, r)
	if r.Test != nil {
		evaluated(w, "test", r.Test, "")
		unknown(w, r.TestUnknown, r.Test.Samples, notTrained)
	}
	switch {
	case r.Mode == slots.Drop.String():
		fmt.Fprintf(w, "mode   %s, backup %d: %d late microbatches; %.1f samples per step\n", r.Mode, r.Backup, r.LateSlots, r.EffectiveBatch)
	case r.Mode != "":
		fmt.Fprintf(w, "mode   %s; %.1f samples per step\n", r.Mode, r.EffectiveBatch)
	}
	tables(w, r)
}

// printGate prints the metrics of the model before, and the verdict.
func printGate(w io.Writer, r report.Result) {
	if r.Gate == nil {
		return
	}
	if r.Gate.Source != nil {
		evaluated(w, "before", r.Gate.Source, "   ("+r.Gate.From+")")
	}
	fmt.Fprintf(w, "gate   %s\n", gated(r))
}

// lossName returns the name of the minimised loss.
func lossName(r report.Result) string {
	for _, m := range []*metrics.Metrics{r.Test, r.Valid} {
		if m != nil && (m.RMSE != nil || len(m.Labels) > 0) {
			return "loss"
		}
	}
	return "log-loss"
}

// evaluated prints the metrics of an evaluation.
func evaluated(w io.Writer, what string, m *metrics.Metrics, note string) {
	fmt.Fprintf(w, "%-6s %s%s\n", what, m, note)
	if base := m.Base(); base != "" {
		fmt.Fprintf(w, "       %s\n", base)
	}
	for i := range m.Labels {
		l := &m.Labels[i]
		evaluated(w, "  "+l.Label, &l.Metrics, "")
	}
}

// nothingLeft returns why nothing was left to train, and how to continue.
func nothingLeft(r report.Result) string {
	switch {
	case r.EarlyStopped > 0:
		return fmt.Sprintf(": early stopping ended it after %s without improvement; to continue: -set train.early_stop.patience=N with N above %d",
			plural.Of(r.EarlyStopped, "evaluation"), r.EarlyStopped)
	case r.Ended != "":
		return "; to continue: add data to the stream, or raise data.follow.steps if it is set"
	}
	return "; to continue: -set train.epochs=N with more epochs"
}

// reading prints how rows were read during the steps.
func reading(w io.Writer, r report.Result) {
	in := r.Input
	if in.Threads > 0 {
		fmt.Fprintf(w, "input  %s read up to %d batches ahead, in %.1f s of work\n", plural.Of(in.Threads, "thread"), in.Depth, in.WorkShare*r.TrainSeconds)
	}
	if in.Bad > 0 {
		fmt.Fprintf(w, "input  %s left out\n", plural.Of(int(in.Bad), "bad record"))
	}
	if in.BadFiles > 0 {
		fmt.Fprintf(w, "input  %s left out\n", plural.Of(int(in.BadFiles), "bad file"))
	}
	if in.Lost > 0 {
		fmt.Fprintf(w, "input  %s did not exist any more (data.follow.lost: skip)\n", plural.Of(int(in.Lost), "record"))
	}
}

// tables prints one line with the rows of all tables and the effects of policies.
func tables(w io.Writer, r report.Result) {
	var sum report.TableReport
	for _, t := range r.Tables {
		sum.Rows, sum.Bytes = sum.Rows+t.Rows, sum.Bytes+t.Bytes
		sum.Refused, sum.Evicted, sum.ToDisk = sum.Refused+t.Refused, sum.Evicted+t.Evicted, sum.ToDisk+t.ToDisk
	}
	fmt.Fprintf(w, "tables %d rows, %s; %s of keys, rows and gradients sent", sum.Rows, plan.Bytes(sum.Bytes), plan.Bytes(r.SparseBytesSent))
	for _, x := range []struct {
		n    int64
		what string
	}{{sum.Refused, "gradients of keys not admitted yet"}, {sum.Evicted, "rows evicted"}, {sum.ToDisk, "rows moved to disk"}} {
		if x.n > 0 {
			fmt.Fprintf(w, "; %d %s", x.n, x.what)
		}
	}
	fmt.Fprintf(w, "\n       %s\n", r.Differs())
}

// notTrained is the reason why values of an evaluation are unknown.
const notTrained = "training has not seen"

// maxUnknown is the number of features that unknown names.
const maxUnknown = 8

// unknown prints the number of unknown values of the features that have most, also as a
// share of the samples, and the reason.
func unknown(w io.Writer, counts map[string]int64, samples int64, why string) {
	if len(counts) == 0 {
		return
	}
	var all []string
	most := func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) }
	names := slices.SortedFunc(maps.Keys(counts), most)
	for _, name := range names[:min(len(names), maxUnknown)] {
		n := fmt.Sprintf("%s %d", name, counts[name])
		if samples > 0 {
			n += fmt.Sprintf(" (%.3g %%)", 100*float64(counts[name])/float64(samples))
		}
		all = append(all, n)
	}
	if n := len(names) - len(all); n > 0 {
		all = append(all, plural.Of(n, "more feature"))
	}
	fmt.Fprintf(w, "values that %s: %s\n", why, strings.Join(all, ", "))
}

// printRunDir prints the files of the run directory and the next commands, which begin with
// launcher.
func printRunDir(w io.Writer, launcher string, r report.Result) {
	fmt.Fprintf(w, "\nrun directory  %s\n", r.RunDir)
	for _, f := range r.RunFiles() {
		fmt.Fprintf(w, "  %-15s %s\n", f.Name, f.What)
	}
	next := fmt.Sprintf("%s eval -resume %s", launcher, quotedPath(r.RunDir))
	predict := fmt.Sprintf("%s predict -resume %s -data FILE -out scores.csv", launcher, quotedPath(r.RunDir))
	switch {
	case r.Checkpoint == "":
		return
	case r.Stopped:
		next, predict = fmt.Sprintf("%s train -resume %s", launcher, quotedPath(r.RunDir)), ""
	case r.TestLogLoss == nil:
		next += " -data FILE"
	}
	fmt.Fprintf(w, "next           %s\n", next)
	if predict != "" {
		fmt.Fprintf(w, "               %s\n", predict)
	}
}

package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/gpu"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/trace"
)

// trainOne runs one rank of a training. kept, if not nil, keeps its model for the next partition.
func trainOne(ctx context.Context, p *command.Program, c *cli.Context, m *member.Member, warn func(string), kept *train.Kept) (result report.Result, err error) {
	opt, err := rankOptions(p, c, m, warn, kept)
	if err != nil {
		return result, err
	}
	log, err := logged(p, c, m, &opt)
	if err != nil {
		return result, err
	}
	defer log.end(&opt)
	show, err := showLive(c, m, &opt)
	if err != nil {
		return result, err
	}
	rec, err := recorder(c)
	if err != nil {
		return result, err
	}
	var memory *train.Memory // of the job in the previous generation
	for {
		opt.Generation = m.World.Generation
		job := train.NewJob(m.Comm, rec, opt)
		job.UseMemory(memory)
		memory = nil // the job frees it when it can
		show.watch(job.Status)
		log.watch(job.Status)
		result, err = runJob(ctx, p, m, rec, job)
		if err = unusable(c, job.Status().RunDir, err); err == nil || opt.Replicas < 2 {
			show.end(result, err)
			return result, err
		}
		memory = job.TakeMemory(err)
		if err = m.Rejoin(ctx, err); err != nil {
			show.end(result, err)
			return result, err
		}
	}
}

// rankOptions returns the options of a training on one rank.
func rankOptions(p *command.Program, c *cli.Context, m *member.Member, warn func(string), kept *train.Kept) (opt train.Options, err error) {
	if opt, err = trainOptions(c); err != nil {
		return opt, err
	}
	if err := command.Tolerant(c, &opt); err != nil {
		return opt, err
	}
	if m.World.Rank == 0 { // the other ranks, on other hosts perhaps, get it from there
		if opt.Config, err = loadConfig(c); err != nil {
			return opt, err
		}
	}
	if opt.Replicas = c.Int("replicas"); opt.Replicas > 1 && !m.World.Launched {
		return opt, errors.New("-replicas: the ranks must be started by wdlrun -np, which starts those that are lost again")
	}
	if kept != nil {
		opt.Day.Kept = kept
	}
	opt.Read = m.World.Launched             // the launcher has read it in checkTrain
	opt.Began = func() { m.Session.Beat() } // the launcher needs the directory if the job restarts
	if err := gpu.Use(c, &opt, gpu.Choice{Member: m}); err != nil {
		return opt, err
	}
	opt.Kill = func() { syscall.Kill(os.Getpid(), syscall.SIGKILL) }
	opt.Peers = command.Peers(m, p.Getenv)
	opt.DiskPatience = c.Duration("disk-patience")
	if m.World.Launched {
		opt.Job = m.World.Job
	}
	if opt.Job != "" && m.World.Rank == 0 && m.World.Generation > 0 && opt.Again == "" && kept == nil { // else days.resume has looked for it
		opt.Again = rundir.Of(opt.Out, opt.Job) // rank 0 died before the launcher received it
	}
	opt.Warn, opt.Say = warn, func(line string) { fmt.Fprintln(p.Stderr, line) }
	if line := nothingToResume(c.String("resume"), m.World, opt); line != "" && m.World.Rank == 0 {
		opt.Say(line)
	}
	return opt, nil
}

// unusable adds to an error about a record the commands that list and skip all such
// records. The configuration in the run directory includes -set.
func unusable(c *cli.Context, runDir string, err error) error {
	var f *record.Fault
	if !errors.As(err, &f) {
		return err
	}
	check := "wdlrun data check " + command.QuotedPath(f.File)
	switch {
	case c.IsSet("config") && !c.IsSet("set"):
		check = "wdlrun data check -config " + command.QuotedPath(c.String("config"))
	case runDir != "":
		check = "wdlrun data check -config " + command.QuotedPath(filepath.Join(runDir, rundir.FileConfig))
	}
	err = fmt.Errorf("%w; to see all such records: %s; to leave up to N of them out: train -max-bad N", err, check)
	return &rank.PermanentError{Err: err} // a restart would read the record again
}

// runJob runs the job in one generation of the group.
func runJob(ctx context.Context, p *command.Program, m *member.Member, rec *trace.Recorder, job *train.Job) (report.Result, error) {
	m.Session.Watch(job.Status)
	defer requests(p, m.Session, job)()
	result, err := job.Run(ctx)
	p.RunDir = job.Status().RunDir
	if err != nil && !plain(err) {
		var last bytes.Buffer
		if rec.WriteLast(&last, failureSpans) == nil {
			m.Session.Report(command.AboutTrace, last.Bytes())
		}
		if lost := job.LastSteps(); lost != nil {
			fmt.Fprintf(p.Stderr, "wdlrun: the timeline of rank %d is not written: %v\n", m.World.Rank, lost)
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

// Command wdlrun trains Wide & Deep click-through models on many processes, and starts any
// other program the same way:
//
//	wdlrun [launch flags] PROGRAM [program flags]
//
// `wdlrun --help` lists the programs. The README leads from a clone to a trained model.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/bench"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/ckpt"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/eval"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/gpu"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/hosts"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/online"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/serve"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/sweep"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/text/nearest"
	"github.com/wdlrun/wdlrun/internal/text/pattern"
	"github.com/wdlrun/wdlrun/launcher"
	"github.com/wdlrun/wdlrun/rank"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == command.GuardWord {
		launcher.Guard(os.Stdin)
		return
	}
	if len(os.Args) == 2 && os.Args[1] == launcher.HostWord {
		if err := launcher.RunHost(os.Stdin, os.Stdout, os.Environ()); err != nil {
			os.Exit(1) // the launcher reports the reason
		}
		return
	}
	if b, ok := debug.ReadBuildInfo(); ok && len(os.Args) == 2 && os.Args[1] == gpu.SourceWord {
		fmt.Println(gpu.DescribeSource(b))
		return
	}
	p := &command.Program{Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}
	cli.VersionPrinter = p.PrintVersion
	os.Exit(run(p, os.Args))
}

// run returns the exit code. Lost output is a failure, reported once.
func run(p *command.Program, args []string) int {
	ctx, stop := signals(p)
	defer stop()
	defer context.AfterFunc(ctx, func() { endBlocked(ctx, p) })()
	out := &printed{to: p.Stdout}
	p.Stdout = out
	p.Progress.SetWriter(p.Stderr)
	defer p.Progress.End()
	app := app(p)
	err := misplaced(app, args)
	if err == nil {
		err = oneProcess(app, args)
	}
	if err == nil {
		err = app.RunContext(ctx, flagsFirst(app, args))
	}
	if lost := out.fault(); lost != nil && errors.Is(err, lost) {
		err = nil // reported below
	}
	if stopped := (launcher.Interrupted{}); errors.Is(err, context.Canceled) && errors.As(context.Cause(ctx), &stopped) {
		err = stopped // of a command without ranks
	}
	code := code(p, err, args)
	if lost := out.fault(); lost != nil {
		fmt.Fprintf(p.Stderr, "wdlrun: the output is lost: %v\n", lost)
		code = max(code, command.FailureCode(args))
	}
	return code
}

// endBlocked exits if a signal has not ended a command without ranks within StartGrace.
func endBlocked(ctx context.Context, p *command.Program) {
	var stopped launcher.Interrupted
	if !errors.As(context.Cause(ctx), &stopped) {
		return
	}
	time.Sleep(command.StartGrace)
	if !p.OwnsRanks.Load() {
		fmt.Fprintf(p.Stderr, "wdlrun: %v; a read or a write does not return\n", stopped)
		os.Exit(stopped.Code())
	}
}

// code prints an error, and returns the exit code.
func code(p *command.Program, err error, args []string) int {
	var code command.Exit
	var verdict *rank.Verdict
	var printed command.Late
	var stopped launcher.Interrupted
	rc := command.FailureCode(args)
	if errors.As(err, &stopped) {
		rc = stopped.Code()
	}
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case p.Launched():
		if errors.As(err, &verdict) || errors.Is(err, rank.ErrEnded) {
			return 1 // the launcher prints it once for all ranks
		}
	case command.AsksJSON(args) && !errors.As(err, &printed):
		p.PrintJSON(map[string]any{"exit_code": rc, "error": command.Unprefixed(err.Error())})
	}
	fmt.Fprintf(p.Stderr, "wdlrun: %s\n", command.Unprefixed(err.Error()))
	return rc
}

// signals returns a context that the first SIGINT or SIGTERM ends. Ranks handle signals
// themselves: see package train.
func signals(p *command.Program) (context.Context, func()) {
	if _, found, _ := rank.FromEnv(p.Getenv); found {
		return context.Background(), func() {}
	}
	return launcher.WithSignals(context.Background())
}

// commands returns the programs, in the order of the help.
func commands(p *command.Program) []*cli.Command {
	return []*cli.Command{
		data.InitCommand(p),
		data.Command(p),
		data.JoinCommand(p),
		train.Command(p),
		eval.Command(p),
		eval.PredictCommand(p),
		serve.ExportCommand(p),
		serve.PublishCommand(p),
		serve.Command(p),
		online.Command(p),
		runs.Command(p),
		runs.ReportCommand(p),
		runs.TraceCommand(p),
		sweep.Command(p),
		ckpt.Command(p),
		train.ReplayCommand(p),
		hosts.Command(p),
		hosts.DoctorCommand(p),
		hosts.AgentCommand(p),
		hosts.ManifestCommand(p),
		gpu.Command(p),
		gpu.CheckCommand(p),
		data.GenCommand(p),
		bench.Command(p),
		data.ConfigHelp(p),
	}
}

func app(p *command.Program) *cli.App {
	app := &cli.App{
		Name:      "wdlrun",
		Usage:     "train Wide & Deep models on many processes, with no parameter server",
		UsageText: "wdlrun [launch flags] PROGRAM [program flags]",
		Version:   command.Version,
		Description: `PROGRAM is one of the commands below or any executable, which wdlrun starts on every rank. To
begin with your own data: wdlrun init -data FILE. For a command: wdlrun COMMAND --help.

Examples:
   wdlrun -np 2 train                       train on the built-in data
   wdlrun -np 4 train -config ctr.yaml      train on your own data
   wdlrun -np 4 ./trainer -lr 0.1           start your own program on 4 ranks
   wdlrun -H localhost:8 -plan train        print where each rank would run`,
		Flags:                     append(command.LaunchFlags(), cli.HelpFlag), // help is a separate command
		Commands:                  commands(p),
		Action:                    p.Executable,
		Writer:                    p.Stdout,
		ErrWriter:                 p.Stderr,
		HideHelpCommand:           true,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              usageError,
		DisableSliceFlagSeparator: true, // -set model.hidden=[64,32] is one setting
	}
	for _, c := range app.Commands {
		c.OnUsageError = usageError
		c.HideHelpCommand = true
		for _, s := range c.Subcommands {
			s.OnUsageError, s.HideHelpCommand = usageError, true
		}
		switch c.Name {
		case "init", "data", "export", "report", "trace", "ckpt", "gen":
			c.Before = p.Progress.Command
		}
	}
	return app
}

// usageError prints a fault of the flags in one line, with a hint.
func usageError(c *cli.Context, err error, _ bool) error {
	name, ours, known := c.App.Name, command.LaunchFlags(), c.App.Flags
	program := c.Command != nil && c.Command.Name != "" && c.Command.Name != name
	if program {
		name, known = c.Command.HelpName, c.Command.Flags
	}
	if err := badValue(err, append(ours, known...)); err != nil {
		return err
	}
	flag, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	short := strings.TrimPrefix(name, c.App.Name+" ")
	switch {
	case program && command.Defined(ours, flag) && !takesLaunchFlag(short, flag):
		return fmt.Errorf("%s is one process, so -%s has no effect: leave it out", short, flag)
	case program && command.Defined(ours, flag):
		return fmt.Errorf("-%s is a launch flag: put it before the program: wdlrun -%s … %s", flag, flag, short)
	case !program && slices.ContainsFunc(c.App.Commands, func(k *cli.Command) bool { return command.Defined(k.Flags, flag) }):
		return fmt.Errorf("-%s is a flag of a program: put it after the program: wdlrun [launch flags] PROGRAM -%s …", flag, flag)
	}
	meant := ""
	if unknown && short == "train" && flag == "data" {
		meant = "; the configuration names the files: wdlrun init -data FILE -out ctr.yaml writes one for wdlrun train -config ctr.yaml"
	} else if set := setting(flag); program && unknown && set != "" && command.Defined(known, "set") {
		meant = "; did you mean -set " + set + "?"
	} else if near := nearest.Of(flag, command.FlagNames(known)); unknown && near != "" {
		meant = "; did you mean -" + near + "?"
	}
	return fmt.Errorf("%w%s; see: %s --help", err, meant, name)
}

// setting returns the -set argument that replaces an unknown flag, "" if no key has its
// name.
func setting(flag string) string {
	if flag == "bf16" { // as bench step names it
		return "train.precision=bf16"
	}
	if key := config.Setting(flag); key != "" {
		return key + "=…"
	}
	return ""
}

// invalid matches the error of package flag for a value that cannot be parsed.
var invalid = pattern.Lazy(`^invalid (?:boolean )?value "(.*)" for (?:flag )?-([^:]+): `)

// badValue returns the error for a value that a flag cannot parse, nil for other errors.
func badValue(err error, flags []cli.Flag) error {
	m := invalid().FindStringSubmatch(err.Error())
	if m == nil {
		return nil
	}
	i := slices.IndexFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), m[2]) })
	if i < 0 {
		return nil
	}
	takes := ""
	switch flags[i].(type) {
	case *cli.DurationFlag:
		takes = "a time with its unit, such as 30s or 2m"
		if _, err := strconv.ParseFloat(m[1], 64); err == nil {
			takes = "a time with its unit: write " + m[1] + "s"
		}
	case *cli.IntFlag, *cli.Int64Flag, *cli.Uint64Flag:
		takes = "a whole number"
	case *cli.Float64Flag:
		takes = "a number"
	case *cli.BoolFlag:
		takes = "true or false, or no value"
	default:
		return nil
	}
	return fmt.Errorf("-%s %q: expected %s", m[2], m[1], takes)
}

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

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/text/nearest"
	"github.com/wdlrun/wdlrun/internal/text/pattern"
	"github.com/wdlrun/wdlrun/launcher"
	"github.com/wdlrun/wdlrun/rank"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == guardWord {
		launcher.Guard(os.Stdin)
		return
	}
	if len(os.Args) == 2 && os.Args[1] == launcher.HostWord {
		if err := launcher.RunHost(os.Stdin, os.Stdout, os.Environ()); err != nil {
			os.Exit(1) // the launcher reports the reason
		}
		return
	}
	if b, ok := debug.ReadBuildInfo(); ok && len(os.Args) == 2 && os.Args[1] == sourceWord {
		fmt.Println(describeSource(b))
		return
	}
	p := &program{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
	cli.VersionPrinter = p.printVersion
	os.Exit(p.main(os.Args))
}

// main returns the exit code. Lost output is a failure, reported once.
func (p *program) main(args []string) int {
	ctx, stop := p.signals()
	defer stop()
	defer context.AfterFunc(ctx, func() { p.endBlocked(ctx) })()
	out := &printed{to: p.stdout}
	p.stdout = out
	p.progress.writeTo(p.stderr)
	defer p.progress.end()
	app := p.app()
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
	code := p.code(err, args)
	if lost := out.fault(); lost != nil {
		fmt.Fprintf(p.stderr, "wdlrun: the output is lost: %v\n", lost)
		code = max(code, failureCode(args))
	}
	return code
}

// endBlocked exits if a signal has not ended a command without ranks within startGrace.
func (p *program) endBlocked(ctx context.Context) {
	var stopped launcher.Interrupted
	if !errors.As(context.Cause(ctx), &stopped) {
		return
	}
	time.Sleep(startGrace)
	if !p.ranks.Load() {
		fmt.Fprintf(p.stderr, "wdlrun: %v; a read or a write does not return\n", stopped)
		os.Exit(stopped.Code())
	}
}

// code prints an error, and returns the exit code.
func (p *program) code(err error, args []string) int {
	var code exit
	var verdict *rank.Verdict
	var printed late
	var stopped launcher.Interrupted
	rc := failureCode(args)
	if errors.As(err, &stopped) {
		rc = stopped.Code()
	}
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case p.launched():
		if errors.As(err, &verdict) || errors.Is(err, rank.ErrEnded) {
			return 1 // the launcher prints it once for all ranks
		}
	case asksJSON(args) && !errors.As(err, &printed):
		p.printJSON(map[string]any{"exit_code": rc, "error": unprefixed(err.Error())})
	}
	fmt.Fprintf(p.stderr, "wdlrun: %s\n", unprefixed(err.Error()))
	return rc
}

// signals returns a context that the first SIGINT or SIGTERM ends. Ranks handle signals
// themselves: see program.requests.
func (p *program) signals() (context.Context, func()) {
	if _, found, _ := rank.FromEnv(p.getenv); found {
		return context.Background(), func() {}
	}
	return launcher.WithSignals(context.Background())
}

// commands returns the programs, in the order of the help.
func commands(p *program) []*cli.Command {
	return []*cli.Command{
		initCommand(p),
		dataCommand(p),
		joinCommand(p),
		trainCommand(p),
		evalCommand(p),
		predictCommand(p),
		exportCommand(p),
		publishCommand(p),
		serveCommand(p),
		onlineCommand(p),
		runsCommand(p),
		reportCommand(p),
		traceCommand(p),
		sweepCommand(p),
		ckptCommand(p),
		replayCommand(p),
		hostsCommand(p),
		doctorCommand(p),
		agentCommand(p),
		manifestCommand(p),
		gpusCommand(p),
		gpuCheckCommand(p),
		genCommand(p),
		benchCommand(p),
		configHelp(p),
	}
}

func (p *program) app() *cli.App {
	app := &cli.App{
		Name:      "wdlrun",
		Usage:     "train Wide & Deep models on many processes, with no parameter server",
		UsageText: "wdlrun [launch flags] PROGRAM [program flags]",
		Version:   version,
		Description: `PROGRAM is one of the commands below or any executable, which wdlrun starts on every rank. To
begin with your own data: wdlrun init -data FILE. For a command: wdlrun COMMAND --help.

Examples:
   wdlrun -np 2 train                       train on the built-in data
   wdlrun -np 4 train -config ctr.yaml      train on your own data
   wdlrun -np 4 ./trainer -lr 0.1           start your own program on 4 ranks
   wdlrun -H localhost:8 -plan train        print where each rank would run`,
		Flags:                     append(launchFlags(), cli.HelpFlag), // help is a separate command
		Commands:                  commands(p),
		Action:                    p.executable,
		Writer:                    p.stdout,
		ErrWriter:                 p.stderr,
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
			c.Before = p.progress.command
		}
	}
	return app
}

// usageError prints a fault of the flags in one line, with a hint.
func usageError(c *cli.Context, err error, _ bool) error {
	name, ours, known := c.App.Name, launchFlags(), c.App.Flags
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
	case program && defined(ours, flag) && !takesLaunchFlag(short, flag):
		return fmt.Errorf("%s is one process, so -%s has no effect: leave it out", short, flag)
	case program && defined(ours, flag):
		return fmt.Errorf("-%s is a launch flag: put it before the program: wdlrun -%s … %s", flag, flag, short)
	case !program && slices.ContainsFunc(c.App.Commands, func(k *cli.Command) bool { return defined(k.Flags, flag) }):
		return fmt.Errorf("-%s is a flag of a program: put it after the program: wdlrun [launch flags] PROGRAM -%s …", flag, flag)
	}
	meant := ""
	if unknown && short == "train" && flag == "data" {
		meant = "; the configuration names the files: wdlrun init -data FILE -out ctr.yaml writes one for wdlrun train -config ctr.yaml"
	} else if set := setting(flag); program && unknown && set != "" && defined(known, "set") {
		meant = "; did you mean -set " + set + "?"
	} else if near := nearest.Of(flag, names(known)); unknown && near != "" {
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

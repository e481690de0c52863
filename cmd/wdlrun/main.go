// Command wdlrun trains Wide & Deep click-through models on many processes, and
// starts any other program the same way:
//
//	wdlrun [launch flags] PROGRAM [program flags]
//
// `wdlrun --help` lists the programs; the README shows the way from a clone to a
// trained model.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/launcher"
	"github.com/wdlrun/wdlrun/rank"
)

// version is that of the program; ranks of one job must have the same.
const version = "0.1.0"

// guardWord starts the launcher's guard process instead of the command.
const guardWord = "__guard"

func main() {
	if len(os.Args) == 2 && os.Args[1] == guardWord {
		launcher.Guard(os.Stdin)
		return
	}
	p := &program{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
	os.Exit(p.main(os.Args))
}

// program is one run of the command.
type program struct {
	stdout, stderr io.Writer
	getenv         func(string) string
}

// exit is an error that only sets the exit code; what there was to say has been
// said.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// afterwards is an error that came when the command's result had been printed.
type afterwards struct{ error }

// main returns the exit code.
func (p *program) main(args []string) int {
	ctx, stop := p.signals()
	defer stop()
	err := p.app().RunContext(ctx, args)
	var code exit
	var verdict *rank.Verdict
	var late afterwards
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case p.launched():
		if errors.As(err, &verdict) {
			return 1 // the launcher says it once, for all ranks
		}
	case asksJSON(args) && !errors.As(err, &late):
		p.printJSON(map[string]any{"exit_code": 1, "error": err.Error()})
	}
	fmt.Fprintf(p.stderr, "wdlrun: %v\n", err)
	return 1
}

// asksJSON finds -json among arguments that may not parse.
func asksJSON(args []string) bool {
	return slices.Contains(args, "-json") || slices.Contains(args, "--json")
}

// launched reports whether wdlrun started this process as a rank.
func (p *program) launched() bool {
	w, found, err := rank.FromEnv(p.getenv)
	return err == nil && found && w.Launched
}

// signals ends the command's context on the first SIGINT or SIGTERM. A rank has
// its own way with them: see program.wishes.
func (p *program) signals() (context.Context, func()) {
	if _, found, _ := rank.FromEnv(p.getenv); found {
		return context.Background(), func() {}
	}
	return launcher.WithSignals(context.Background())
}

func (p *program) app() *cli.App {
	app := &cli.App{
		Name:      "wdlrun",
		Usage:     "train Wide & Deep models on many processes, with no parameter server",
		UsageText: "wdlrun [launch flags] PROGRAM [program flags]",
		Version:   version,
		Description: `PROGRAM is one of the commands below, or any executable: it is started on every
rank with the rank's place in its environment (WDLRUN_RANK, WDLRUN_SIZE, …; see
go doc github.com/wdlrun/wdlrun/rank).

Examples:
   wdlrun -np 2 train                       train on the built-in data
   wdlrun -np 4 train -config ctr.yaml      train on your own
   wdlrun -np 4 ./trainer -lr 0.1           start your own program on 4 ranks
   wdlrun -H localhost:8 -plan train        show who would run where`,
		Flags:                     append(launchFlags(), cli.HelpFlag), // ours is a command of its own
		Commands:                  []*cli.Command{trainCommand(p), evalCommand(p), replayCommand(p), initCommand(p), genCommand(p), dataCommand(p), benchCommand(p), ckptCommand(p), configHelp(p)},
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
	}
	return app
}

// usageError says what is wrong with the flags in one line, and where to look.
func usageError(c *cli.Context, err error, _ bool) error {
	name, ours := c.App.Name, launchFlags()
	program := c.Command != nil && c.Command.Name != "" && c.Command.Name != name
	if program {
		name += " " + c.Command.Name
	}
	flag := strings.TrimPrefix(err.Error(), "flag provided but not defined: -")
	switch {
	case program && defined(ours, flag):
		return fmt.Errorf("-%s is a launch flag and stands before the program: wdlrun -%s … %s", flag, flag, c.Command.Name)
	case !program && slices.ContainsFunc(c.App.Commands, func(k *cli.Command) bool { return defined(k.Flags, flag) }):
		return fmt.Errorf("-%s is a flag of a program and stands after it: wdlrun [launch flags] PROGRAM -%s …", flag, flag)
	}
	return fmt.Errorf("%w; see: %s --help", err, name)
}

func defined(flags []cli.Flag, name string) bool {
	return slices.ContainsFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
}

func jsonFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print one JSON object as the last line of standard output"}
}

func (p *program) printJSON(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "%s\n", b)
	return err
}

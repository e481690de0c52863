package main

import (
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/urfave/cli/v2"
	"github.com/wdlrun/wdlrun/internal/text/pattern"
	"github.com/wdlrun/wdlrun/rank"
)

// program is one run of the command.
type program struct {
	stdout, stderr io.Writer
	getenv         func(string) string

	ranks    atomic.Bool // the launcher or a sweep is running, which ends its ranks or trainings itself
	hosts    hostWords   // the launch flags that name hosts and how to reach them
	progress progress    // of a command without ranks
	foreign  bool        // this rank was started by mpirun, srun or torchrun
	chaos    bool        // faults are injected
	runDir   string      // of the training of this rank, once it has one
	faults   int         // injected faults that verdicts have reported
}

// exit is an error that only sets the exit code; messages have been printed.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// late is an error that occurred after the command's result was printed.
type late struct{ error }

func (l late) Unwrap() error { return l.error }

// afterwards marks an error that occurred after the command's result was printed.
func afterwards(err error) error { return late{err} }

// launched reports whether wdlrun started this process as a rank.
func (p *program) launched() bool {
	w, found, err := rank.FromEnv(p.getenv)
	return err == nil && found && w.Launched
}

// hostWords are the host flags of a job as given, each after a space; "" on one host.
type hostWords string

func (p *program) printJSON(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "%s\n", b)
	return err
}

// guardWord starts the launcher's guard process instead of a command.
const guardWord = "__guard"

// prefixes are package and operation at the beginning of errors of package launcher. They
// help other programs that import it.
var prefixes = pattern.Lazy(`^launcher: (run|hosts|place|start|host): `)

// unprefixed returns a message without such a prefix.
func unprefixed(text string) string { return prefixes().ReplaceAllString(text, "") }

// Action returns a function of a command for this program.
func (p *program) Action(f func(*program, *cli.Context) error) func(*cli.Context) error {
	return func(c *cli.Context) error { return f(p, c) }
}

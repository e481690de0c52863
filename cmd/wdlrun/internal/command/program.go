// Package command is what all commands of wdlrun share: it launches ranks (Launch), runs a
// command on all of them (OnRanks), and prints results.
package command

import (
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/urfave/cli/v2"
	"github.com/wdlrun/wdlrun/internal/text/pattern"
	"github.com/wdlrun/wdlrun/rank"
)

// Program is one run of the command.
type Program struct {
	Stdout, Stderr io.Writer
	Getenv         func(string) string

	OwnsRanks atomic.Bool // the launcher or a sweep is running, which ends its ranks or trainings itself
	hosts     hostWords   // the launch flags that name hosts and how to reach them
	Progress  Progress    // of a command without ranks
	foreign   bool        // this rank was started by mpirun, srun or torchrun
	chaos     bool        // faults are injected
	RunDir    string      // of the training of this rank, once it has one
	faults    int         // injected faults that verdicts have reported
}

// Exit is an error that only sets the exit code; messages have been printed.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Late is an error that occurred after the command's result was printed.
type Late struct{ error }

func (l Late) Unwrap() error { return l.error }

// Afterwards marks an error that occurred after the command's result was printed.
func Afterwards(err error) error { return Late{err} }

// Launched reports whether wdlrun started this process as a rank.
func (p *Program) Launched() bool {
	w, found, err := rank.FromEnv(p.Getenv)
	return err == nil && found && w.Launched
}

// hostWords are the host flags of a job as given, each after a space; "" on one host.
type hostWords string

func (p *Program) PrintJSON(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Stdout, "%s\n", b)
	return err
}

// GuardWord starts the launcher's guard process instead of a command.
const GuardWord = "__guard"

// prefixes are package and operation at the beginning of errors of package launcher. They
// help other programs that import it.
var prefixes = pattern.Lazy(`^launcher: (run|hosts|place|start|host): `)

// Unprefixed returns a message without such a prefix.
func Unprefixed(text string) string { return prefixes().ReplaceAllString(text, "") }

// Action returns a function of a command for this program.
func (p *Program) Action(f func(*Program, *cli.Context) error) func(*cli.Context) error {
	return func(c *cli.Context) error { return f(p, c) }
}

package command

import (
	"flag"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"
)

// Parsed parses arguments of a command of an application without running it.
func Parsed(app *cli.App, name string, args []string) (*cli.Context, error) {
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	c := app.Command(name)
	if c == nil {
		return nil, fmt.Errorf("there is no command %q", name)
	}
	for _, f := range c.Flags {
		if err := f.Apply(set); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := set.Parse(args); err != nil {
		return nil, fmt.Errorf("%s: %w; see: wdlrun %[1]s --help", name, err)
	}
	return cli.NewContext(app, set, nil), nil
}

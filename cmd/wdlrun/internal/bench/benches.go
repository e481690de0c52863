package bench

import (
	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
)

// benches returns the subcommands of bench, except bench collectives. Each is in a file named
// NAME.go.
func benches(p *command.Program) []*cli.Command {
	return []*cli.Command{benchInputCommand(p), benchStepCommand(p), benchServeCommand(p)}
}

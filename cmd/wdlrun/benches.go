package main

import "github.com/urfave/cli/v2"

// benches returns the subcommands of bench, except bench collectives. Each is in a file named
// bench_NAME.go.
func benches(p *program) []*cli.Command {
	return []*cli.Command{benchInputCommand(p), benchStepCommand(p), benchServeCommand(p)}
}

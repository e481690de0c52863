package main

import "github.com/urfave/cli/v2"

// benches are the measurements of bench other than the collectives', each in a file of its
// own, bench_NAME.go.
func benches(p *program) []*cli.Command {
	return []*cli.Command{benchInputCommand(p), benchStepCommand(p), benchServeCommand(p), benchStragglerCommand(p)}
}

package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/runs/timeline"
	"github.com/wdlrun/wdlrun/internal/train/report"
)

func TraceCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name: "trace", Usage: "name the rank that the others waited for, from the timelines of a run", UsageText: "wdlrun trace [flags] RUN",
		Description: `Reads the timelines that the ranks of a training have written to its run directory RUN, and
prints which rank most steps waited for, and in which phases it was late. Tables show the work
and the waiting of each rank, and the ten slowest steps with their causes. A rank counts as
delaying a step if it enters the exchanges later than all others, by at least 5 % of the step.
The last table divides the whole job into its parts, and shows in which of them one rank worked
while the others waited.

Ranks write timelines at the end, after a failure, and when the launcher receives SIGUSR2. They
contain about the last ten thousand steps.

-out writes one timeline of all ranks for ui.perfetto.dev, with arrows from the rank that came
last to those that waited for it.

Examples:
   wdlrun trace runs/20261121-101500
   wdlrun trace -json runs/20261121-101500
   wdlrun trace -out trace.json.gz runs/20261121-101500`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Usage: "write one timeline of all ranks to `FILE`, compressed with gzip"},
			command.JSONFlag(),
		},
		Action: p.Action(merge),
	}
}

// rowsOf returns the rows that each rank of a finished training owns, nil if they are not known.
func rowsOf(dir string) (rows []int64) {
	var r report.Result
	b, err := regular.ReadFile(filepath.Join(dir, rundir.FileResult), rundir.MaxFile)
	if err != nil || json.Unmarshal(b, &r) != nil {
		return nil
	}
	for i := range r.Ranks {
		rows = append(rows, r.Ranks[i].Rows)
	}
	return rows
}

func merge(p *command.Program, c *cli.Context) error {
	if c.NArg() != 1 {
		return errors.New("trace: give one run directory; see: wdlrun trace --help")
	}
	dir := command.RunAt(c.Args().First(), command.RunsFolder)
	_, err := rundir.Stat(dir)
	var t *timeline.Timeline
	if err == nil {
		t, err = timeline.Open(dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("trace: %w; to list the run directories in DIR: wdlrun runs DIR", err)
	} else if err != nil {
		return err
	}
	a := t.Analyse()
	a.Rows = rowsOf(dir)
	if out := command.PathOf(c, "out"); out != "" {
		cut := 0
		_, err := command.WriteWhole(out, func(w io.Writer) (err error) {
			cut, err = t.Merge(w)
			return err
		})
		if err != nil {
			return fmt.Errorf("trace: %w", err)
		}
		if cut > 0 {
			fmt.Fprintf(p.Stderr, "wdlrun: %s omits the %d earliest spans, because it would be too large\n", out, cut)
		}
	}
	if command.AsJSON(c) {
		return p.PrintJSON(a)
	}
	return a.Write(p.Stdout)
}

package runs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/report"
	"github.com/wdlrun/wdlrun/internal/runs/tensorboard"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

func ReportCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name: "report", Usage: "write an HTML page about one run or several", UsageText: "wdlrun report [flags] RUN...",
		Description: `Writes report.html into the working directory, or the file of -out. An earlier page is replaced,
another file is not. The page needs no network. For a folder of runs, the page is about the run that
finished last.
It shows the verdict, the metrics, the settings that differ, curves of loss, AUC and speed, the
time of each rank by phase, the tables compared with the plan, and warnings with advice. Runs in
progress, failed runs and runs of another version are shown with the data that can be read.

-tensorboard DIR writes event files of TensorBoard instead, as train -tensorboard does during
the training: the scalars of metrics.jsonl in DIR/RUN/model/train, valid and test, the times of
ranks in DIR/RUN/rank-N, histograms and curves of evaluations of validation data, the model
as a graph, and the settings as hyperparameters. View them with tensorboard --logdir DIR.

Examples:
   wdlrun report runs/20261121-101500
   wdlrun report -out compared.html runs/20261121-101500 runs/20261121-113000
   wdlrun report -tensorboard tb runs/20261121-101500`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Value: "report.html", Usage: "write the page to `FILE`"},
			&cli.StringFlag{Name: "tensorboard", Usage: "write event files of TensorBoard into `DIR`, and no page"},
			command.JSONFlag(),
		},
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return errors.New("report: give one or more run directories; see: wdlrun report --help")
			}
			nameLatest(p.Stderr, c.Args().Slice())
			if to := command.PathOf(c, "tensorboard"); to != "" {
				return eventFiles(c, p, to)
			}
			out, some := command.PathOf(c, "out"), reported(c.Args().Slice())
			if err := report.Replaceable(out); err != nil {
				return fmt.Errorf("report: %w", err)
			}
			size, err := command.WriteWhole(out, func(w io.Writer) error { return report.Write(w, some, time.Now()) })
			if err != nil {
				return err
			}
			if command.AsJSON(c) {
				return p.PrintJSON(map[string]any{"out": out, "bytes": size, "runs": some})
			}
			_, err = fmt.Fprintf(p.Stdout, "%s: %s, %d kB\n", out, plural.Of(len(some), "run"), (size+999)/1000)
			return err
		},
	}
}

// nameLatest prints which run stands for a folder of runs.
func nameLatest(w io.Writer, given []string) {
	for _, path := range given {
		if info, err := os.Stat(path); err != nil || !info.IsDir() || runs.IsRun(path) {
			continue
		}
		if run := command.RunAt(path, command.RunsFolder); runs.IsRun(run) && run != path {
			fmt.Fprintf(w, "wdlrun: %s is a folder of runs: the report is about %s, which finished last; for all of them: wdlrun report %s/*\n",
				path, run, command.QuotedPath(filepath.Clean(path)))
		}
	}
}

// reported returns the run directories to report, each once, even if the link latest also leads to it: a shell
// finds it too for runs/*.
func reported(given []string) (some []string) {
	for _, path := range given {
		if to := command.RunAt(path, command.RunsFolder); to == path || !slices.Contains(given, to) && !slices.Contains(some, to) {
			some = append(some, to)
		}
	}
	return some
}

// eventFiles writes the event files of the given runs.
func eventFiles(c *cli.Context, p *command.Program, dir string) error {
	if c.IsSet("out") {
		return errors.New("report: -tensorboard writes no page, so -out has no effect: give one of them")
	}
	all, from := []string{}, map[string]string{}
	var read []*runs.Run
	var about []*runs.Summary
	for _, path := range reported(c.Args().Slice()) {
		r, err := runs.Read(path)
		if err != nil {
			return fmt.Errorf("report: %w", err)
		}
		if other, twice := from[r.Name]; twice {
			return fmt.Errorf("report: -tensorboard: %s and %s have the same name, so their files would be the same: write them into two folders", other, path)
		}
		from[r.Name] = path
		read, about = append(read, r), append(about, &r.Summary)
	}
	keys := tensorboard.Keys(about)
	for _, r := range read {
		paths, err := tensorboard.Write(dir, r, keys)
		if err != nil {
			return err
		}
		all = append(all, paths...)
		for _, fault := range r.Faults {
			fmt.Fprintf(p.Stderr, "wdlrun: warning: %s: %s\n", r.Dir, fault)
		}
	}
	if command.AsJSON(c) {
		return p.PrintJSON(map[string]any{"out": dir, "files": all})
	}
	_, err := fmt.Fprintf(p.Stdout, "%s in %s; next: tensorboard --logdir %s\n", plural.Of(len(all), "event file"), dir, command.QuotedPath(dir))
	return err
}

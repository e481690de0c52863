package bench

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/bench/input"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/data/schema"
)

func benchInputCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "input",
		Usage:     "measure how fast a file becomes batches, on one core",
		UsageText: "wdlrun bench input -data FILE [-config FILE] [flags]",
		Description: `Reads, splits, checks and encodes the records of a file, as training does, and prints
records and bytes per second, CPU time and allocations per record. Without -config the
features are those that wdlrun init would write.

Examples:
   wdlrun bench input -data day_0.tsv
   wdlrun bench input -data day_0.tsv -shuffle -json`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "data", Usage: "read `FILE`, glob or folder"},
			&cli.StringFlag{Name: "config", Usage: "take format and features from configuration `FILE`"},
			&cli.BoolFlag{Name: "shuffle", Usage: "read in shuffled order, as training does"},
			&cli.IntFlag{Name: "batch", Value: 1024, Usage: "make batches of `N` records"},
			&cli.DurationFlag{Name: "time", Value: 2 * time.Second, Usage: "measure for `DURATION`"},
			command.JSONFlag(),
		},
		Action: p.Action(benchInput),
	}
}

func benchInput(p *command.Program, c *cli.Context) error {
	file := c.String("data")
	if file == "" {
		return errors.New("bench input: which file? wdlrun bench input -data FILE")
	}
	if err := command.Positive(c, "batch", "time"); err != nil {
		return err
	}
	cfg, err := inputConfig(command.PathOf(c, "config"), file)
	if err != nil {
		return err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r, err := input.Run(c.Context, input.Options{
		Source: cfg.Data, Schema: schema.Schema{Label: cfg.Label, Labels: cfg.Labels, Features: cfg.Features, Crosses: cfg.Crosses},
		Files: []string{file}, Batch: c.Int("batch"), Shuffle: c.Bool("shuffle"), Time: c.Duration("time"),
	})
	if err != nil {
		return err
	}
	if command.AsJSON(c) {
		return p.PrintJSON(r)
	}
	fmt.Fprintf(p.Stdout, "%s: %.0f records/s, %.1f MB/s, %.0f ns of CPU time and %.3f allocations per record\n", r.Format, r.RecordsPerSecond, r.BytesPerSecond/1e6, r.CPUPerRecord, r.AllocsPerRecord)
	return nil
}

// inputConfig returns the configuration of a file, or the one that init would write for a
// file of records.
func inputConfig(path, file string) (*config.Config, error) {
	if path != "" {
		return config.Load(path)
	}
	seen, err := inspect.First(file, 0)
	if err != nil {
		return nil, err
	}
	return config.Parse("the configuration suggested for "+file, config.Suggest(seen, ""))
}

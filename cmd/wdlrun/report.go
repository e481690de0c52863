package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/internal/report"
)

func reportCommand(p *program) *cli.Command {
	return &cli.Command{
		Name: "report", Usage: "write an HTML page about one run or several", UsageText: "wdlrun report [flags] RUN...",
		Description: `Writes one file, which needs no network: the verdict, metrics, the settings that differ,
curves of loss, AUC and speed, where the time of each rank went, tables against the plan,
and warnings with what to do. Runs that are under way, failed or of another version are
shown as far as they can be read.

Examples:
   wdlrun report runs/20261121-101500
   wdlrun report -out compared.html runs/20261121-101500 runs/20261121-113000`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Value: "report.html", Usage: "write the page to `FILE`"},
			jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return errors.New("report: run directories are asked for; see: wdlrun report --help")
			}
			out := pathOf(c, "out")
			size, err := writeWhole(out, func(w io.Writer) error { return report.Write(w, c.Args().Slice(), time.Now()) })
			if err != nil {
				return err
			}
			if asJSON(c) {
				return p.printJSON(map[string]any{"out": out, "bytes": size, "runs": c.Args().Slice()})
			}
			_, err = fmt.Fprintf(p.stdout, "%s: %d %s, %d kB\n", out, c.NArg(), plural(c.NArg(), "run"), (size+999)/1000)
			return err
		},
	}
}

// writeWhole writes a file in one piece: nothing is left of one that fails.
func writeWhole(path string, write func(io.Writer) error) (size int64, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".wdlrun-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	b := bufio.NewWriter(f)
	if err = write(b); err == nil {
		err = errors.Join(b.Flush(), f.Chmod(0o644))
	}
	if info, e := f.Stat(); e == nil {
		size = info.Size()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	return size, os.Rename(f.Name(), path)
}

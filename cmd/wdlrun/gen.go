package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/data/synth"
)

func genCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "gen",
		Usage:     "write a synthetic click log of any size",
		UsageText: "wdlrun gen [-profile criteo|meituan] [-rows N] [-start N] [-out FILE]",
		Description: `Tab-separated lines in Criteo's layout: label, counts I1…, categories C1…,
from a planted logistic model with interactions, so that the best possible AUC
is known. Row n is the same whoever writes it: files may be written in pieces.

   criteo   26 categories (2 million values, Zipf 1.1), 13 counts
   meituan  60 categories (10 million values, Zipf 1.1)

Examples:
   wdlrun gen -rows 200000 -out train.tsv
   wdlrun gen -rows 20000 -start 200000 -out test.tsv
   wdlrun gen -rows 10 | head -1`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "profile", Value: "criteo", Usage: strings.Join(synth.Profiles(), " or ")},
			&cli.Int64Flag{Name: "rows", Value: 100_000, Usage: "`N` rows to write"},
			&cli.Int64Flag{Name: "start", Usage: "number `N` of the first row"},
			&cli.StringFlag{Name: "out", Value: "-", Usage: "`FILE` to write, - for standard output"},
			jsonFlag(),
		},
		Action: func(c *cli.Context) error { return p.gen(c) },
	}
}

// genPiece is how many rows are written between two looks at the clock and the
// context.
const genPiece = 50_000

// genProgress is the time between two lines that say how far it is.
const genProgress = 2 * time.Second

func (p *program) gen(c *cli.Context) (err error) {
	g, err := synth.New(c.String("profile"))
	if err != nil {
		return err
	}
	if c.Args().Present() {
		return fmt.Errorf("gen takes no argument, and %q is one; a file is given as -out FILE", c.Args().First())
	}
	rows, start, path := c.Int64("rows"), c.Int64("start"), c.String("out")
	if rows < 0 || start < 0 || start+rows > synth.MaxRow {
		return fmt.Errorf("gen: %d rows from row %d: both must be at least 0 and end before row %d", rows, start, int64(synth.MaxRow))
	}
	out, counted := p.stdout, &counter{}
	if path != "-" {
		f, err := os.Create(path)
		if err != nil {
			return fmt.Errorf("gen: %w", err)
		}
		defer func() {
			if e := f.Close(); err == nil && e != nil {
				err = fmt.Errorf("gen: %w", e)
			}
			if err != nil {
				os.Remove(path) // half a log would pass for a whole one
			}
		}()
		out = f
	} else if c.Bool("json") {
		return fmt.Errorf("gen: -json and the rows would share standard output: give -out FILE")
	}
	counted.w = out
	began := time.Now()
	if err := p.writeRows(c.Context, g, counted, start, rows); err != nil {
		return fmt.Errorf("gen: %s: %w", path, err)
	}
	if c.Bool("json") {
		return p.printJSON(map[string]any{
			"profile": c.String("profile"), "rows": rows, "start": start, "bytes": counted.n,
			"seconds": time.Since(began).Seconds(), "file": path,
		})
	}
	if path != "-" {
		fmt.Fprintf(p.stderr, "wrote %d rows, %d bytes, to %s\nnext: wdlrun init -data %s\n", rows, counted.n, path, path)
	}
	return nil
}

func (p *program) writeRows(ctx context.Context, g *synth.Generator, out io.Writer, start, rows int64) error {
	w := bufio.NewWriterSize(out, 1<<20)
	shown := time.Now()
	for done := int64(0); done < rows; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(genPiece, rows-done)
		if err := g.Write(w, start+done, n); err != nil {
			return err
		}
		done += n
		if done < rows && time.Since(shown) > genProgress {
			shown = time.Now()
			fmt.Fprintf(p.stderr, "gen: %d of %d rows\n", done, rows)
		}
	}
	return w.Flush()
}

// counter counts the bytes that pass.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

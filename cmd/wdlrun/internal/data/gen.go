package data

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/data/synth"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/data/write"
)

func GenCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "gen",
		Usage:     "write synthetic click logs",
		UsageText: "wdlrun gen [-profile criteo|meituan] [-rows N] [-start N] [-drift N] [-format FORMAT] [-out FILE]",
		Description: `Writes lines in Criteo's layout: label, counts I1…, categories C1…. The labels come from a
known logistic model with interactions, so the best possible AUC is known. Row n is always
the same, so files can be written in pieces.

   criteo   26 categories (2 million values, Zipf 1.1), 13 counts; best AUC .781
   meituan  60 categories (10 million values, Zipf 1.1); best AUC .788

Examples:
   wdlrun gen -rows 200000 -out train.tsv
   wdlrun gen -rows 20000 -start 200000 -out test.tsv
   wdlrun gen -rows 10 | head -1
   wdlrun gen -rows 10000 -start 20000 -drift 10000 -out clicks/dt=2026-11-03/part.tsv
   wdlrun gen -rows 200000 -out train.parquet
   wdlrun gen -rows 200000 -out train.tfrecord.gz

csv has a header, tsv and criteo have none. In LibSVM and LibFFM a category is written as
the number of its eight hexadecimal digits.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "profile", Value: "criteo", Usage: strings.Join(synth.Profiles(), " or ")},
			&cli.Int64Flag{Name: "rows", Value: 100_000, Usage: "write `N` rows"},
			&cli.Int64Flag{Name: "start", Usage: "begin with row `N`"},
			&cli.Int64Flag{Name: "drift", Usage: "after each `N` rows, a day, replace a twentieth of the values of large fields by new ones with other weights"},
			&cli.StringFlag{Name: "out", Value: "-", Usage: "write to `FILE`, which must not exist; - is standard output"},
			&cli.StringFlag{Name: "format", Usage: "write `FORMAT`: " + strings.Join(write.Formats(), ", "), DefaultText: "by the name of -out, else tsv"},
			&cli.StringFlag{Name: "compress", Usage: "compress with `HOW`: " + strings.Join(write.Packings(), ", "), DefaultText: "by the name of -out"},
			command.JSONFlag(),
		},
		Action: func(c *cli.Context) error { return generate(p, c) },
	}
}

// genPiece is the number of rows written between two checks of clock and context.
const genPiece = 50_000

func generate(p *command.Program, c *cli.Context) (err error) {
	g, err := synth.New(c.String("profile"))
	if err != nil {
		return err
	}
	if c.Args().Present() {
		return fmt.Errorf("gen takes no arguments, but got %q; a file is given as -out FILE", c.Args().First())
	}
	rows, start, path := c.Int64("rows"), c.Int64("start"), command.PathOf(c, "out")
	if rows < 0 || start < 0 || start+rows > synth.MaxRow {
		return fmt.Errorf("gen: %d rows from row %d: both must be at least 0 and end before row %d", rows, start, int64(synth.MaxRow))
	}
	if n := c.Int64("drift"); n < 0 || c.IsSet("drift") && n == 0 {
		return fmt.Errorf("gen: -drift %d: give the rows of a day, such as 10000", n)
	}
	g.Drift(c.Int64("drift"))
	to, err := genTarget(path, c.String("format"), c.String("compress"))
	if err != nil {
		return fmt.Errorf("gen: %w", err)
	}
	if _, err := os.Lstat(path); path != "-" && err == nil {
		return fmt.Errorf("gen: %s exists; remove it first or choose another name", path)
	}
	if path == "-" && command.AsJSON(c) {
		return fmt.Errorf("gen: -json and the rows would share standard output: give -out FILE")
	}
	if path != "-" {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("gen: -out: %w", err)
		}
	}
	began := time.Now()
	size, err := writeLog(c.Context, p, g, to, start, rows)
	if err != nil {
		return fmt.Errorf("gen: %s: %w", path, err)
	}
	if command.AsJSON(c) {
		return p.PrintJSON(map[string]any{
			"profile": c.String("profile"), "rows": rows, "start": start, "bytes": size,
			"seconds": time.Since(began).Seconds(), "file": path,
		})
	}
	if path != "-" {
		next := "init -data "
		if start > 0 { // test data, by convention
			next = "eval -resume RUN -data "
		}
		fmt.Fprintf(p.Stderr, "wrote %d rows, %d bytes, to %s\nnext: %s %s%s\n", rows, size, path, command.Called(os.Args[0]), next, command.QuotedPath(path))
	}
	return nil
}

// genTarget determines format and compression. A name without a known extension means tsv.
func genTarget(path, format, packing string) (Target, error) {
	promised, rest := write.PackingOf(path)
	if format == "" && formatOf(rest) == "" {
		format = "tsv"
	}
	if path == "-" && packing == "" && promised == "none" && format != "parquet" {
		packing = "none"
	}
	to, err := TargetOf(path, format, packing)
	to.bare = to.Format == "tsv"
	return to, err
}

// writeLog writes the rows to a file or to standard output, and returns the number of
// bytes.
func writeLog(ctx context.Context, p *command.Program, g *synth.Generator, to Target, start, rows int64) (int64, error) {
	if to.Path == "-" {
		out, err := to.Begin(p.Stdout, genColumns(g, to.Format), nil)
		if err == nil {
			err = writeRows(ctx, p, g, out, start, rows)
		}
		if err == nil {
			err = out.End()
		}
		return 0, err
	}
	out, err := to.Create(genColumns(g, to.Format), nil)
	if err != nil {
		return 0, err
	}
	if err := writeRows(ctx, p, g, &out.Stream, start, rows); err != nil {
		out.Abandon() // a partial log would look complete
		return 0, err
	}
	err = out.Finish()
	return out.counted.n, err
}

// genColumns returns the columns of a profile. In numeric formats a category is the number
// of its hexadecimal digits.
func genColumns(g *synth.Generator, format string) (columns []write.Column) {
	for _, name := range g.Header() {
		c := write.Column{Name: name, Kind: value.Int}
		if name[0] == 'C' && !strings.HasPrefix(format, "lib") {
			c.Kind = value.Text
		}
		columns = append(columns, c)
	}
	return columns
}

func writeRows(ctx context.Context, p *command.Program, g *synth.Generator, out *Stream, start, rows int64) error {
	w := io.Writer(&rowWriter{to: out.Writer, digits: strings.HasPrefix(out.Format, "lib"), lists: make([]value.List, len(g.Header()))})
	if out.Format == "tsv" || out.Format == "criteo" {
		w = out.pack // the generator writes lines
	}
	shown := p.Progress.Begin("gen", rows, fmt.Sprintf("%d rows", rows))
	for done := int64(0); done < rows; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(genPiece, rows-done)
		if err := g.Write(w, start+done, n); err != nil {
			return err
		}
		done += n
		shown(done)
	}
	return nil
}

// rowWriter converts the generator's lines into records. Each Write must have complete
// lines.
type rowWriter struct {
	to     write.Writer
	digits bool // categories are hexadecimal numbers
	lists  []value.List
	number []byte
}

func (r *rowWriter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		var line []byte
		line, b, _ = bytes.Cut(b, []byte{'\n'})
		r.number = r.number[:0]
		for i := range r.lists {
			var field []byte
			field, line, _ = bytes.Cut(line, []byte{'\t'})
			if r.digits && len(field) == 8 {
				x, err := strconv.ParseUint(string(field), 16, 32)
				if err != nil {
					return 0, err
				}
				at := len(r.number)
				r.number = strconv.AppendUint(r.number, x, 10)
				field = r.number[at:]
			}
			r.lists[i].SetText(field)
		}
		if err := r.to.Write(r.lists); err != nil {
			return 0, err
		}
	}
	return n, nil
}

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/data"
	"github.com/wdlrun/wdlrun/internal/nearest"
	"github.com/wdlrun/wdlrun/wdl/config"
)

func initCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "init",
		Usage:     "look at a file of records and write a configuration for it",
		UsageText: "wdlrun init -data FILE [-rows N] [-out FILE]",
		Description: `Guesses format, delimiter, header, types, label and how each column is best encoded,
and says in comments what it saw. CSV, TSV, Criteo's layout, TFRecord of tf.Example, JSON,
Parquet, LibSVM, LibFFM; plain or packed with gzip, zstd or snappy. Read the result
through before training on it; what could not be guessed is marked CHECK.

Examples:
   wdlrun init -data clicks.csv -out clicks.yaml
   wdlrun init -data kafka://broker:9092/clicks    records that are JSON objects or tf.Examples
   wdlrun -np 4 train -config clicks.yaml`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "data", Usage: "`FILE` to look at, or a glob or folder, of which the first file is"},
			&cli.IntFlag{Name: "rows", Value: 10_000, Usage: "how many rows `N` to look at, of the first file: half at its beginning, half all over it unless it is packed"},
			&cli.StringFlag{Name: "out", Value: "-", Usage: "`FILE` to write, which must not exist; - for standard output"},
			jsonFlag(),
		},
		Action: p.init,
	}
}

func (p *program) init(c *cli.Context) error {
	if err := flagsFirst(c, "a file"); err != nil {
		return err
	}
	files := c.Args().Slice()
	if data := c.String("data"); data != "" {
		files = append(files, data)
	}
	if len(files) > 1 {
		return fmt.Errorf("init: it looks at one file, and %q are given", files)
	}
	if len(files) == 0 {
		return errors.New("init: which file? wdlrun init -data FILE")
	}
	seen, err := data.Inspect(files[0], c.Int("rows"))
	if err != nil {
		return err
	}
	text, path := config.Suggest(look(seen)), pathOf(c, "out")
	if path != "-" {
		if err := writeNew(path, text); err != nil {
			return err
		}
	}
	if asJSON(c) {
		return p.printJSON(map[string]any{"data": seen.Path, "rows": seen.Rows, "looked_at": seen.First, "files": seen.Files, "label": seen.Label, "columns": len(seen.Columns), "config": string(text)})
	}
	if path == "-" {
		_, err := p.stdout.Write(text)
		return err
	}
	of := seen.Path
	if seen.Files > 1 {
		of = fmt.Sprintf("%s, the first of %d files of %s", seen.First, seen.Files, seen.Path)
	}
	fmt.Fprintf(p.stderr, "wrote %s, after a look at %d rows of %s\nnext: read it, then wdlrun -np 2 train -config %s\n", path, seen.Rows, of, path)
	return nil
}

// writeNew writes a file that does not exist yet: what somebody has edited is
// not overwritten.
func writeNew(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("init: %s exists; remove it first or choose another name", path)
	}
	if err != nil {
		return fmt.Errorf("init: %w", err)
	}
	_, err = f.Write(b)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(path) // half a configuration helps nobody
		return fmt.Errorf("init: %w", err)
	}
	return nil
}

func look(s *data.Inspection) config.Look {
	l := config.Look{
		Path: s.Path, Format: s.Format, Delimiter: s.Delimiter, Header: s.Header, Comment: s.Comment,
		Rows: s.Rows, Label: s.Label, Positive: s.Positive, Missing: s.Missing,
	}
	if s.Files > 1 {
		l.First = s.First
	}
	for _, c := range s.Columns {
		l.Columns = append(l.Columns, config.LookColumn{
			Name: c.Name, Kind: c.Kind, Distinct: c.Distinct, Missing: c.Missing, Separator: c.Separator, Many: c.Many, Examples: c.Examples,
		})
	}
	return l
}

// configHelp lists the keys of a configuration: wdlrun help config.
func configHelp(p *program) *cli.Command {
	return &cli.Command{
		Name:      "help",
		Usage:     "help on the command, on one PROGRAM, or on the configuration file (help config)",
		UsageText: "wdlrun help [PROGRAM [SUBCOMMAND] | config]",
		Action: func(c *cli.Context) error {
			switch name := c.Args().First(); name {
			case "":
				return cli.ShowAppHelp(c)
			case "config":
				_, err := fmt.Fprint(p.stdout, config.Reference())
				return err
			default:
				return helpOn(c, name, c.Args().Get(1))
			}
		},
	}
}

// helpOn shows the page of a program, or of one of its subcommands.
func helpOn(c *cli.Context, name, sub string) error {
	program := c.App.Command(name)
	if program == nil {
		return fmt.Errorf("help: there is no program %q%s", name, nearest.Instead(name, append(programs(c.App), "config")))
	}
	if sub == "" || len(program.Subcommands) == 0 {
		return cli.ShowCommandHelp(c, name)
	}
	return c.App.Run([]string{c.App.Name, name, sub, "--help"})
}

package data

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/text/nearest"
	"github.com/wdlrun/wdlrun/internal/train/walk"
)

func InitCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "init",
		Usage:     "read a sample of your files and write a configuration",
		UsageText: "wdlrun init [-rows N] [-label FIELD] [-out FILE] -data FILE [FILE…]",
		Description: `Detects the format, header, types and label of your files, and writes a configuration with an
encoding for each column and the evidence for it. Read it before you train: uncertain choices
are marked CHECK.

Files are CSV, TSV, Criteo's layout, TFRecord of tf.Example or tf.SequenceExample, JSON lines,
Parquet, Arrow IPC, Avro, LibSVM or LibFFM, plain or compressed with gzip, zstd, snappy, lz4 or
bzip2. A folder may be a Delta table.

Keys of the JSON line (-json):
   data, also, files, looked_at   first and other inputs, number of files, files that were read
   rows, all, ragged              rows read; whether these are all; rows with another number of fields
   format, notes                  detected format; oddities of the files
   label, label_sure              label field; whether its name is one of a label
   label_ones or label_from       values that mean 1, or the least number that means 1
   columns                        name, type (integer, number, text), list, missing (share), distinct,
                                  min, max, examples, shape (amount, identifier), auc (of the column
                                  alone), leak (it may reveal the label)
   config                         the configuration as text

Examples:
   wdlrun init -data clicks.csv -out clicks.yaml
   wdlrun init -data clicks.csv -label bought      the label is not the guessed field
   wdlrun init -data day_*.csv -out clicks.yaml    several files with the same columns
   wdlrun init -data clicks/ -follow -out ctr.yaml     a folder that receives new files
   wdlrun init -data kafka://broker:9092/clicks    records that are JSON objects or tf.Examples
   wdlrun data check -config clicks.yaml && wdlrun -np 4 train -config clicks.yaml`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "data", Usage: "read `FILE`, glob or folder; at most 16 files are read"},
			&cli.IntFlag{Name: "rows", DefaultText: "40000, or 10000 if there are more than 100 fields", Usage: "read `N` rows: half from the beginning of the first file, half from all files; of a compressed file only the beginning, of files with line breaks in quotes only the first 64 MiB"},
			&cli.StringFlag{Name: "label", Usage: "the label is `FIELD`", DefaultText: "guessed by names and values"},
			&cli.BoolFlag{Name: "follow", Usage: "for a folder, glob or topic that grows: train on new files or records as they arrive"},
			&cli.StringFlag{Name: "out", Value: "-", Usage: "write to `FILE`, which must not exist; - is standard output"},
			command.JSONFlag(),
		},
		Action: p.Action(propose),
	}
}

func propose(p *command.Program, c *cli.Context) error {
	files := c.Args().Slice()
	if data := c.String("data"); data != "" {
		files = append([]string{data}, files...)
	}
	if len(files) == 0 {
		return errors.New("init: which file? wdlrun init -data FILE")
	}
	path := command.PathOf(c, "out")
	if path != "-" { // what follows takes a while
		if err := creatable(path); err != nil {
			return err
		}
	}
	seen, err := inspect.All(files, c.Int("rows"))
	if err != nil {
		return err
	}
	if label := c.String("label"); label != "" {
		if err := seen.SetLabel(label); err != nil {
			return fmt.Errorf("init: -label: %w", err)
		}
	} else if err := seen.OneClass(); err != nil {
		return fmt.Errorf("init: %w", err)
	}
	if len(seen.Columns) == 1 && len(seen.Unread) == 0 {
		return fmt.Errorf("init: %s: its records have one field, %q, and no other to learn from; is it csv or tsv?", seen.Names[0], seen.Columns[0].Name)
	}
	if !config.Learnable(seen) {
		return fmt.Errorf("init: %s: no field other than %s has two values, or some missing values, so none can predict it%s", seen.Names[0], seen.Label, withUnread(seen.Unread))
	}
	by := datesOf(c.Context, files)
	for i := range seen.Columns {
		x := &seen.Columns[i]
		x.Dated = x.Folder && slices.Contains(strings.Split(by, ","), x.Name)
	}
	index := ""
	if c.Bool("follow") {
		if index, err = indexFor(path, files); err != nil {
			return err
		}
	}
	var crosses config.Crosses
	text := config.SuggestWith(seen, index, &crosses)
	if len(crosses.Found.Pairs)+len(crosses.Rates.Columns) > 0 {
		tryCrosses(c.Context, seen, &crosses, index != "")
		text = config.SuggestWith(seen, index, &crosses)
	}
	if path != "-" {
		if err := writeNew(path, text); err != nil {
			return err
		}
	}
	if command.AsJSON(c) {
		return p.PrintJSON(initOf(seen, text))
	}
	if path == "-" {
		_, err := p.Stdout.Write(text)
		return err
	}
	fmt.Fprintf(p.Stderr, "wrote %s from %s\nnext: %s\n", path, config.LookedAt(seen, strings.Clone), nextOf(path, text, by, index))
	return nil
}

// nextOf describes what to do with a new configuration of files whose partition columns are dates, as datesOf returns
// them.
func nextOf(path string, text []byte, by, index string) string {
	read := "read it"
	if n := config.Marked(text); n > 0 {
		read = fmt.Sprintf("check the %d lines marked CHECK", n)
		if n == 1 {
			read = "check the line marked CHECK"
		}
	}
	self, file := command.Called(os.Args[0]), command.QuotedPath(path)
	next := fmt.Sprintf("%s, then run: %s data check -config %s", read, self, file)
	if index != "" {
		next += fmt.Sprintf("; then: %s data index -config %s -out %s", self, file, command.QuotedPath(index))
	}
	next += fmt.Sprintf("; then: %s -np 2 train -config %s", self, file)
	if by != "" {
		next += fmt.Sprintf(", or on one folder %s after the other, each from the model before it: add -by %s", strings.ReplaceAll(by, ",", "=…/")+"=…", by)
	}
	return next
}

// datesOf returns the partition columns of some files whose values are several dates, as train -by takes them;
// "" if there are none.
func datesOf(ctx context.Context, files []string) (by string) {
	all, err := record.Resolve(files)
	if err != nil {
		return ""
	}
	columns := record.PartitionNames(all)
	for n := range columns {
		parts, err := walk.List(ctx, schema.Source{Train: files}, walk.By{Columns: columns[:n+1]}, 0)
		if err == nil && len(parts.All) > 1 && parts.All[0].End != 0 {
			by = strings.Join(columns[:n+1], ",")
		}
	}
	return by
}

// indexFor returns the name of the feature index of a configuration whose files are
// followed.
func indexFor(path string, files []string) (string, error) {
	for _, name := range files {
		if info, err := os.Stat(record.LocalPath(name)); err == nil && info.Mode().IsRegular() {
			return "", fmt.Errorf("init: -follow: %s is one file: give the folder or a glob that new files will match", name)
		}
	}
	if path == "-" {
		return "ctr.index", nil
	}
	return strings.TrimSuffix(path, filepath.Ext(path)) + ".index", nil
}

// initResult is the output of init --json.
type initResult struct {
	Data     string       `json:"data"`
	Also     []string     `json:"also,omitempty"` // what more was given
	Files    int          `json:"files"`          // that these name; of a topic, partitions
	LookedAt []string     `json:"looked_at"`      // of them
	Rows     int          `json:"rows"`           // looked at
	All      bool         `json:"all"`            // these are all rows
	Ragged   int          `json:"ragged"`         // lines of another number of fields
	Format   string       `json:"format"`
	Label    string       `json:"label"`
	Sure     bool         `json:"label_sure"` // it has a usual name of labels
	Ones     []string     `json:"label_ones,omitempty"`
	From     *float64     `json:"label_from,omitempty"`
	Notes    []string     `json:"notes,omitempty"` // what is odd about the files
	Columns  []initColumn `json:"columns"`
	Config   string       `json:"config"`
}

// initColumn is one column of initResult.
type initColumn struct {
	Name     string   `json:"name"`
	Type     string   `json:"type"` // integer, number or text
	List     bool     `json:"list,omitempty"`
	Missing  float64  `json:"missing"` // share of the rows
	Distinct int      `json:"distinct"`
	Min      *float64 `json:"min,omitempty"`
	Max      *float64 `json:"max,omitempty"`
	Examples []string `json:"examples,omitempty"` // the most frequent values
	Shape    string   `json:"shape,omitempty"`
	AUC      *float64 `json:"auc,omitempty"` // of the column alone
	Leak     bool     `json:"leak,omitempty"`
}

func initOf(s *inspect.Inspection, text []byte) initResult {
	r := initResult{
		Data: s.Path, Also: s.More, Files: s.Files, LookedAt: s.Names, Rows: s.Rows, All: s.All, Ragged: s.Ragged, Format: s.Format,
		Label: s.Label, Sure: s.Sure, Ones: s.Positive, From: s.Threshold, Notes: s.Notes, Config: string(text),
	}
	typeNames := map[string]string{"int": "integer", "float": "number", "string": "text"}
	for i := range s.Columns {
		c := &s.Columns[i]
		x := initColumn{Name: c.Name, Type: typeNames[c.Kind], List: c.Many || c.Separator != "", Missing: c.Missing, Distinct: c.Distinct, Examples: c.Examples, Shape: string(c.Shape)}
		if c.Kind != "string" && !math.IsInf(c.Min, 0) && !math.IsInf(c.Max, 0) {
			x.Min, x.Max = &c.Min, &c.Max
		}
		if c.Signal.Known {
			x.AUC, x.Leak = &c.Signal.AUC, c.Signal.Leaks()
		}
		r.Columns = append(r.Columns, x)
	}
	return r
}

// withUnread lists fields that cannot be read, "" if there are none.
func withUnread(unread []string) string {
	if len(unread) == 0 {
		return ""
	}
	return "; not read: " + strings.Join(unread, "; ")
}

// ConfigHelp returns the command help; help config lists the keys of a configuration.
func ConfigHelp(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "help",
		Usage:     "help on the command, on one PROGRAM, or on the configuration file (help config)",
		UsageText: "wdlrun help [PROGRAM [SUBCOMMAND] | config [-json]]",
		Flags:     []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "help config: print the keys as one JSON object"}},
		Action: func(c *cli.Context) error {
			words := slices.DeleteFunc(c.Args().Slice(), func(w string) bool { return command.AsksJSON([]string{w}) })
			words = append(words, "", "")
			switch name := words[0]; name {
			case "":
				return cli.ShowAppHelp(c)
			case "config":
				if command.AsJSON(c) || command.AsksJSON(c.Args().Slice()) {
					return p.PrintJSON(map[string]any{"version": command.Version, "keys": config.Keys()})
				}
				_, err := fmt.Fprint(p.Stdout, config.Reference())
				return err
			default:
				return helpOn(c, name, words[1])
			}
		},
	}
}

// helpOn prints the help of a program or of one of its subcommands.
func helpOn(c *cli.Context, name, sub string) error {
	program := c.App.Command(name)
	if program == nil {
		return fmt.Errorf("help: there is no program %q%s", name, nearest.Instead(name, append(command.Programs(c.App), "config")))
	}
	if sub == "" || len(program.Subcommands) == 0 {
		return cli.ShowCommandHelp(c, name)
	}
	return c.App.Run([]string{c.App.Name, name, sub, "--help"})
}

// Package data has the commands for records before training: data, gen, init and join.
package data

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
)

// Command returns the command data, for files of records before training.
func Command(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "data",
		Usage:     "show, summarise, check, convert, compare and index files of records",
		UsageText: "wdlrun data show|stats|check|convert|diff|index [flags] [FILE]…",
		Description: `FILE is a path, a file:// URL, a glob, a folder, builtin:adult.data or a topic
(kafka://HOST:PORT/TOPIC). A program built with -tags remote also reads https://, s3:// and
gs:// addresses. The formats are CSV, TSV, Criteo's layout, TFRecord of tf.Example, JSON
objects (one per line), Parquet, Arrow IPC, Avro, LibSVM and LibFFM, plain or compressed with
gzip, zstd, snappy, lz4 or bzip2. The format is detected from the beginning of the file. -config FILE sets it, if the
detection is wrong or the records of a topic are lines without names.

Examples:
   wdlrun data show clicks.csv               the first records, one field per line
   wdlrun data stats clicks.csv              types, distinct and missing values, range
   wdlrun data check 'part-*.tfrecord.gz'    reads all records, lists those that cannot be used
   wdlrun data convert -out clicks.parquet clicks.csv
   wdlrun data diff clicks.csv clicks.parquet
   wdlrun -np 4 data index -config ctr.yaml -out ctr.index`,
		Subcommands: []*cli.Command{showCommand(p), statsCommand(p), checkCommand(p), convertCommand(p), diffCommand(p), indexCommand(p)},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("data: there is no %q; there are show, stats, check, convert, diff and index", c.Args().First())
			}
			return cli.ShowSubcommandHelp(c)
		},
	}
}

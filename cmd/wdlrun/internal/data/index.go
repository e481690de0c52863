package data

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/trace"
)

func indexCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "index",
		Usage:     "build vocabularies and statistics for a configuration in one pass of all ranks",
		UsageText: "wdlrun [launch flags] data index -out INDEX [flags] [FILE]…",
		Description: `The index contains the strings of features with encode: vocabulary, and the means and
quantiles of other features. It is made from the training data of -config, or from the FILEs,
and is the same for any number of ranks. A training with data.index: INDEX uses these
statistics for training and evaluation, and stores them with the model.

min_count of a feature leaves out rare strings, and max_size keeps only the most frequent ones.
-set changes both for one index. Strings that are left out share one key. Features with
encode: hash need no index.

Examples:
   wdlrun -np 4 data index -config ctr.yaml -out ctr.index
   wdlrun data index -set features[0].min_count=10 -config ctr.yaml -out ctr.index day_*.tsv
   wdlrun -np 4 train -config ctr.yaml -set data.index=ctr.index
   wdlrun data stats -index ctr.index monday.tsv      count values that are not in the index`,
		Flags: recordFlags(
			&cli.StringFlag{Name: "out", Usage: "write to `FILE`, which must not exist"},
			&cli.StringSliceFlag{Name: "set", Usage: "override a key: `KEY=VALUE`; may be repeated"},
		),
		Action: func(c *cli.Context) error {
			check := func(c *cli.Context) error {
				opt, _, err := indexOptions(c)
				if err == nil {
					opt.Away = command.Elsewhere(c)
					err = train.CheckIndex(opt)
				}
				return err
			}
			return p.OnRanks(c, check, indexRank(p.Getenv), command.JSONOr(printIndexed(c, p.Starts)))
		},
	}
}

// indexOptions returns the options and what the settings remove.
func indexOptions(c *cli.Context) (opt train.IndexOptions, removed []string, err error) {
	t, err := recordsAs(c, c.StringSlice("set"))
	if err != nil && c.String("config") == "" {
		return opt, nil, fmt.Errorf("data index: give -config FILE, which names the features; wdlrun init -data FILE writes one")
	}
	opt.Config, opt.Out = t.config, command.PathOf(c, "out")
	if opt.Config == nil && err == nil {
		return opt, nil, fmt.Errorf("data index: give -config FILE, which names the features; wdlrun init -data FILE writes one")
	}
	if c.Args().Present() || c.IsSet("data") {
		opt.Data = t.patterns
	}
	return opt, t.notes, err
}

// indexRank returns the work of a rank.
func indexRank(getenv func(string) string) func(context.Context, *cli.Context, *member.Member, func(string)) (any, error) {
	return func(ctx context.Context, c *cli.Context, m *member.Member, warn func(string)) (any, error) {
		var opt train.IndexOptions
		if m.World.Rank == 0 { // the others get the configuration from there
			var removed []string
			var err error
			if opt, removed, err = indexOptions(c); err != nil {
				return nil, err
			}
			for _, line := range removed {
				warn(line)
			}
		}
		opt.Warn, opt.Peers = warn, command.Peers(m, getenv)
		x := train.NewIndexing(m.Comm, trace.New(0), opt)
		m.Session.Watch(x.Status)
		r, err := x.Run(ctx)
		if _, bad := errors.AsType[*record.Fault](err); bad {
			err = &rank.PermanentError{Err: fmt.Errorf("%w; to skip up to N such records: data index -set data.max_bad=N", err)}
		}
		return r, err
	}
}

// printIndexed returns a function that prints a train.IndexResult as text. starts returns
// the beginning of a command.
func printIndexed(flags *cli.Context, starts func(np int) string) func(w io.Writer, np int, result []byte) error {
	return func(w io.Writer, np int, result []byte) error {
		var r train.IndexResult
		if err := json.Unmarshal(result, &r); err != nil {
			return err
		}
		fmt.Fprintf(w, "%d records in %s, %.1f s on %s\n", r.Records, plural.Of(len(r.Data), "file"), r.Seconds, plural.Of(r.WorldSize, "rank"))
		rows := [][]string{{"feature", "field", "strings", "kept", "values unknown"}}
		for _, v := range r.Vocabularies {
			rows = append(rows, []string{v.Feature, v.Field, fmt.Sprint(v.Distinct), fmt.Sprint(v.Kept), share(v.Unknown, v.Values)})
		}
		if len(r.Vocabularies) > 0 {
			fmt.Fprint(w, command.Aligned(rows))
		}
		train := starts(np) + " train"
		path := command.PathOf(flags, "config")
		if path != "" { // else the built-in configuration
			train += " -config " + command.QuotedPath(path)
		}
		for _, set := range flags.StringSlice("set") {
			train += " -set " + command.Quoted(set)
		}
		if c, err := config.Load(path); err != nil || c.Data.Index != r.File {
			train += " -set " + command.Quoted("data.index="+r.File)
		}
		_, err := fmt.Fprintf(w, "\nindex  %s, %d bytes\nnext   %s\n", r.File, r.Bytes, train)
		return err
	}
}

// share returns a percentage.
func share(part, whole int64) string {
	return fmt.Sprintf("%.2f %%", 100*float64(part)/float64(max(whole, 1)))
}

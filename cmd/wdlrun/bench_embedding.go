package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/internal/bench/embedding"
	"github.com/wdlrun/wdlrun/internal/bench/sparse"
	"github.com/wdlrun/wdlrun/rank"
	"github.com/wdlrun/wdlrun/rank/member"
)

func benchUniqueCommand(p *program) *cli.Command {
	return tableBench(p, &cli.Command{
		Name:      "unique",
		Usage:     "measure making the keys of a batch unique, compared with a Go map",
		UsageText: "wdlrun bench unique [flags]",
		Description: `Numbers the distinct ones of a batch of keys that follow Zipf's law, as every
lookup does first, and does the same with a Go map that is cleared and used again.
Both run in turns in one process: of a ratio above 1 the engine is faster. Of the
ranks only rank 0 works.

Examples:
   wdlrun bench unique
   wdlrun bench unique -keys 65536 -zipf 1.2 -json`,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "keys", Value: 1 << 18, Usage: "`KEYS` of the batch"},
			&cli.Float64Flag{Name: "zipf", Value: 1.05, Usage: "`EXPONENT` of their distribution, above 1"},
			jsonFlag(),
		},
	}, func(c *cli.Context) embedding.Options {
		return embedding.Options{Ops: []string{"unique"}, Batch: c.Int("keys"), Zipf: c.Float64("zipf")}
	})
}

func benchTableCommand(p *program) *cli.Command {
	return tableBench(p, &cli.Command{
		Name:      "table",
		Usage:     "measure a table of embeddings against a Go map and the memory's limit",
		UsageText: "wdlrun bench table [flags]",
		Description: `hold    fills a table with row-wise Adagrad: bytes of memory for each key
find    looks up keys that are held, beside a Go map of as many keys
gather  reads rows, beside reading as many random lines of memory, each known
        beforehand: what the machine can do at best
grow    inserts the keys, batch by batch, beside a Go map: the worst batch of each
adagrad, rowwise_adagrad, ftrl, adam
        take optimizer steps of rows that are held, of 4,096, which a core's own
        cache holds, and of some four million at most, beside a loop over the same
        records in an array

All sides run in turns in one process, and the fastest turns count: of a ratio above
1 the engine is faster. "at best" is what the memory or the arithmetic alone take. A key takes up to 130 bytes here, that of the map included; without -keys
there are as many as fit a quarter of the free memory, at most 4 million, which takes
a quarter of a minute. Of the ranks only rank 0 works.

Examples:
   wdlrun bench table
   wdlrun bench table -keys 50000000 -dim 8 -json
   wdlrun bench table -only hold -keys 100000000     # takes 8 GB`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "only", Usage: "`OPERATIONS` to measure, such as find,gather (default: all)"},
			&cli.IntFlag{Name: "keys", Usage: "`ROWS` of the table, at least 65536", DefaultText: "as many as fit, see above"},
			&cli.IntFlag{Name: "dim", Value: 8, Usage: "`VALUES` of a row that gather reads"},
			jsonFlag(),
		},
	}, func(c *cli.Context) embedding.Options {
		ops := embedding.TableOps()
		if c.IsSet("only") {
			ops = strings.Split(c.String("only"), ",")
		}
		return embedding.Options{Ops: ops, Keys: c.Int("keys"), Dim: c.Int("dim")}
	})
}

// tableBench completes a command whose measurements are of rank 0 alone.
func tableBench(p *program, cmd *cli.Command, options func(*cli.Context) embedding.Options) *cli.Command {
	cmd.Action = func(c *cli.Context) error {
		if c.Args().Present() {
			return fmt.Errorf("bench %s takes no argument, and %q is one", cmd.Name, c.Args().First())
		}
		if err := positive(c, names(cmd.Flags)...); err != nil {
			return err
		}
		opt := options(c)
		for _, op := range opt.Ops {
			if cmd.Name == "table" && !slices.Contains(embedding.TableOps(), op) {
				return fmt.Errorf("bench table: -only: there is no %q: give some of %s", op, strings.Join(embedding.TableOps(), ", "))
			}
		}
		work := func(_ context.Context, _ *cli.Context, m *member.Member, _ func(string)) (any, error) {
			done := watchBench(m)
			if m.Comm.Rank() != 0 {
				return nil, nil
			}
			opt.Progress = func() { done.Add(1) }
			opt.Begin = func(op string, n, of int) {
				phase := fmt.Sprintf("bench %s %s, %d of %d", cmd.Name, op, n, of)
				m.Session.Watch(func() rank.Status { return rank.Status{Phase: phase, Waits: true, Progress: done.Load()} })
			}
			return embedding.Run(opt)
		}
		return p.everywhere(c, func(*cli.Context) error { return opt.Validate() }, work, printLines[embedding.Result])
	}
	return cmd
}

// watchBench shows people how many measurements are done.
func watchBench(m *member.Member) *atomic.Int64 {
	done := new(atomic.Int64)
	m.Session.Watch(func() rank.Status {
		return rank.Status{Phase: "bench", Waits: true, Progress: done.Load()}
	})
	return done
}

func benchExchangeCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "exchange",
		Usage:     "measure the exchange of embeddings between these ranks",
		UsageText: "wdlrun [launch flags] bench exchange [flags]",
		Description: `Pulls and pushes batches of keys that follow Zipf's law: every distinct key of
another rank takes 8 bytes out, a row back, and a gradient out. Beside it the same
keys, rows and gradients go by all-to-all calls that copy, as libraries of message
passing have them. Both run in turns: of a ratio above 1 the engine is faster. The
line wire is of keys, rows and gradients alone, without making keys distinct and
finding rows by them.

Examples:
   wdlrun -np 2 bench exchange
   wdlrun -np 4 bench exchange -keys 65536 -dim 32 -json`,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "keys", Usage: "`KEYS` of a rank's batch", DefaultText: "32768"},
			&cli.IntFlag{Name: "dim", Usage: "`VALUES` of a row", DefaultText: "16"},
			&cli.Float64Flag{Name: "zipf", Usage: "`EXPONENT` of the keys' distribution, above 1", DefaultText: "1.05"},
			&cli.Uint64Flag{Name: "domain", Usage: "distinct `KEYS` that can be drawn", DefaultText: "1000000"},
			&cli.IntFlag{Name: "fields", Usage: "`FIELDS` that share the domain", DefaultText: "1"},
			&cli.DurationFlag{Name: "time", Value: 500 * time.Millisecond, Usage: "`DURATION` of measuring either way"},
			jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("bench exchange takes no argument, and %q is one", c.Args().First())
			}
			if err := positive(c, "keys", "dim", "zipf", "domain", "fields", "time"); err != nil {
				return err
			}
			opt := sparse.Options{Keys: c.Int("keys"), Dim: c.Int("dim"), Zipf: c.Float64("zipf"), Domain: c.Uint64("domain"), Fields: c.Int("fields"), Time: c.Duration("time")}
			work := func(_ context.Context, _ *cli.Context, m *member.Member, _ func(string)) (any, error) {
				done := watchBench(m)
				var lines []sparse.Line
				err := sparse.Run(m.Comm, opt, func(l sparse.Line) { lines = append(lines, l); done.Add(1) })
				return lines, err
			}
			return p.everywhere(c, func(*cli.Context) error { return opt.Validate() }, work, printLines[sparse.Line])
		},
	}
}

// printLines prints results, one a line.
func printLines[T fmt.Stringer](w io.Writer, _ int, asJSON bool, result []byte) error {
	var lines []T
	if err := json.Unmarshal(result, &lines); err != nil {
		return err
	}
	for _, l := range lines {
		text := l.String()
		if asJSON {
			b, err := json.Marshal(l)
			if err != nil {
				return err
			}
			text = string(b)
		}
		if _, err := fmt.Fprintln(w, text); err != nil {
			return err
		}
	}
	return nil
}

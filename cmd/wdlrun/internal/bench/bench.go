// Package bench has the command bench and its subcommands.
package bench

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/bench"
	"github.com/wdlrun/wdlrun/internal/control"
	"github.com/wdlrun/wdlrun/internal/text/nearest"
	"github.com/wdlrun/wdlrun/member"
	"github.com/wdlrun/wdlrun/rank"
)

func Command(p *command.Program) *cli.Command {
	b := &cli.Command{
		Name:      "bench",
		Usage:     "measure collectives, the training step, the input or a server",
		UsageText: "wdlrun [launch flags] bench [OPERATION]… [flags]",
		Description: `OPERATION is one of ` + strings.Join(bench.Ops(), ", ") + `;
without one, ` + strings.Join(bench.DefaultOps(), ", ") + `. Each is measured in two forms. In the form
_use every rank writes its buffer before a call and reads the result afterwards, as a
trainer does. Times are medians of the slowest rank. -json prints one object per line.
"algorithm" is the choice of the cost model, and "predicted" the time that it predicts. Its
latency, bandwidth and speed of summing are measured at the start. If all ranks share memory,
barrier alone has no prediction.

Examples:
   wdlrun -np 2 bench
   wdlrun -np 4 bench allreduce -sizes 64k,1m,16m -json`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "sizes", Usage: "measure buffers of `BYTES` per rank, such as 8,1k,16m"},
			&cli.DurationFlag{Name: "time", Value: bench.DefaultTime, Usage: "measure each operation, form and size for `DURATION`"},
			&cli.BoolFlag{Name: "plain", Usage: "omit the _use forms"},
			&cli.StringFlag{Name: "algorithm", Usage: "use algorithm `NAME` for all calls that support it: " + strings.Join(algorithmNames(), ", ")},
			&cli.StringFlag{Name: "turns", Usage: "each rank reads from the named pipe `FILE` what to measure next, in 32 bytes such as \"allreduce_use 16384\", padded with spaces, until \"end\"; -sizes gives the largest"},
			&cli.BoolFlag{Name: "json", Usage: "print a JSON object for each line"},
		},
		Subcommands: benches(p),
	}
	b.Action = func(c *cli.Context) error {
		c, ops, err := wordsFirst(c, b.Flags)
		if err != nil {
			return c.App.OnUsageError(c, err, false)
		}
		if err := command.Positive(c, "time"); err != nil {
			return err
		}
		opt, err := benchOptions(c, ops)
		if err != nil {
			return err
		}
		work := func(_ context.Context, c *cli.Context, m *member.Member, _ func(string)) (any, error) {
			if name := c.String("turns"); name != "" {
				f, err := os.Open(name)
				if err != nil {
					return nil, fmt.Errorf("-turns: %w", err)
				}
				defer f.Close()
				opt.Turns = resting{f, m.Session}
			}
			err := measure(m, opt, benchLines(p.Stdout, command.AsJSON(c)))
			if bytes, huge := m.Memory(); err == nil && bytes > 0 && m.World.Rank == 0 && !command.AsJSON(c) {
				fmt.Fprintf(p.Stdout, "%.1f MiB of each rank in windows, %.1f MiB of them in huge pages\n", float64(bytes)/(1<<20), float64(huge)/(1<<20))
			}
			return nil, err
		}
		shown := func(io.Writer, int, bool, []byte) error { return nil }
		return p.OnRanks(c, func(*cli.Context) error { return opt.Validate() }, work, shown)
	}
	return b
}

// wordsFirst parses the flags that follow the words of a command, as in "bench allreduce
// -json".
func wordsFirst(c *cli.Context, flags []cli.Flag) (*cli.Context, []string, error) {
	rest, words := c.Args().Slice(), []string(nil)
	for len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		words, rest = append(words, rest[0]), rest[1:]
	}
	if len(rest) == 0 {
		return c, words, nil
	}
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	for _, f := range flags {
		if err := f.Apply(set); err != nil {
			return c, nil, err
		}
	}
	if err := set.Parse(rest); err != nil {
		return c, nil, err
	}
	later := cli.NewContext(c.App, set, c)
	later.Command = c.Command
	return later, append(words, set.Args()...), nil
}

func benchOptions(c *cli.Context, ops []string) (bench.Options, error) {
	known := bench.Ops()
	for _, other := range benches(nil) {
		known = append(known, other.Name)
	}
	for _, op := range ops {
		switch {
		case !slices.Contains(known, op):
			return bench.Options{}, fmt.Errorf("bench: there is no %q%s", op, nearest.Instead(op, known))
		case !slices.Contains(bench.Ops(), op):
			return bench.Options{}, fmt.Errorf("bench: %s needs a separate command: wdlrun [launch flags] bench %s [flags]", op, op)
		}
	}
	opt := bench.Options{Ops: ops, Time: c.Duration("time"), PlainOnly: c.Bool("plain")}
	for _, s := range strings.FieldsFunc(c.String("sizes"), func(r rune) bool { return r == ',' }) {
		n, err := command.ParseBytes(s)
		if err != nil {
			return opt, fmt.Errorf("-sizes: %w", err)
		}
		opt.Sizes = append(opt.Sizes, int(n))
	}
	if name := c.String("algorithm"); name != "" {
		i := slices.Index(algorithmNames(), name)
		if i < 0 {
			return opt, fmt.Errorf("-algorithm: there is no %q; there are %s", name, strings.Join(algorithmNames(), ", "))
		}
		opt.Take = collective.Algorithm(i + 1)
	}
	return opt, opt.Validate()
}

// algorithmNames returns the names of the algorithms by messages, in the order of their
// numbers.
func algorithmNames() (names []string) {
	for a := collective.Ring; a <= collective.Rails; a++ {
		names = append(names, a.String())
	}
	return names
}

// measure runs the benchmark; rank 0 shows each line as soon as it is measured.
func measure(m *member.Member, opt bench.Options, show func(bench.Line)) error {
	done := int64(0)
	opt.Transport = m.Transport
	m.Session.Watch(func() rank.Status { return rank.Status{Phase: "bench", Waits: true} })
	return bench.Run(m.Comm, opt, func(l bench.Line) {
		show(l)
		done++
		n := done
		m.Session.Watch(func() rank.Status { return rank.Status{Phase: "bench", Waits: true, Progress: n} })
	})
}

// resting reads turns. During a read the rank has no phase and waits for no other rank.
type resting struct {
	turns   io.Reader
	session *control.Session
}

func (r resting) Read(b []byte) (int, error) {
	r.session.Watch(func() rank.Status { return rank.Status{} })
	defer r.session.Watch(func() rank.Status { return rank.Status{Phase: "bench", Waits: true} })
	return r.turns.Read(b)
}

// benchLines returns a function that prints lines as a table with a heading, or as JSON.
func benchLines(w io.Writer, asJSON bool) func(bench.Line) {
	heading := !asJSON
	return func(l bench.Line) {
		if heading {
			fmt.Fprintln(w, bench.Header)
			heading = false
		}
		if !asJSON {
			fmt.Fprintln(w, l)
			return
		}
		b, _ := json.Marshal(l) // numbers and strings
		fmt.Fprintf(w, "%s\n", b)
	}
}

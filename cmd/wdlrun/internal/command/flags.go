package command

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/record"
)

// AsksJSON finds -json among arguments that may not parse.
func AsksJSON(args []string) bool {
	return slices.Contains(args, "-json") || slices.Contains(args, "--json")
}

// PathOf returns the path in a flag, given as a path or a file:// URL.
func PathOf(c *cli.Context, flag string) string { return record.LocalPath(c.String(flag)) }

func JSONFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print one JSON object as the last line"}
}

// AsJSON reports whether -json is given before or after a command's name.
func AsJSON(c *cli.Context) bool {
	return slices.ContainsFunc(c.Lineage(), func(k *cli.Context) bool { return k.Bool("json") })
}

// Positive rejects flags that are given and not above 0, because 0 means not given.
func Positive(c *cli.Context, names ...string) error {
	for _, name := range names {
		above := true
		switch v := c.Value(name).(type) {
		case int:
			above = v > 0
		case uint64:
			above = v > 0
		case float64:
			above = v > 0
		case time.Duration:
			above = v > 0
		}
		if c.IsSet(name) && !above {
			return fmt.Errorf("%s: -%s %v: it must be above 0", strings.TrimPrefix(c.Command.HelpName, c.App.Name+" "), name, c.Value(name))
		}
	}
	return nil
}

func Defined(flags []cli.Flag, name string) bool {
	return slices.ContainsFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
}

// FlagNames returns all names of flags.
func FlagNames(flags []cli.Flag) (all []string) {
	for _, f := range flags {
		all = append(all, f.Names()...)
	}
	return all
}

// Programs returns the names of wdlrun's commands.
func Programs(app *cli.App) (names []string) {
	for _, c := range app.Commands {
		names = append(names, c.Name)
	}
	return names
}

// maxBytes is the maximum that ParseBytes accepts.
const maxBytes = 1 << 45

// ParseBytes parses 8, 16k, 16KiB, 16Ki, 4m, 1g: powers of 1024.
func ParseBytes(s string) (int64, error) {
	text := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(strings.TrimSpace(s)), "b"), "i")
	shift := 0
	for i, unit := range []string{"k", "m", "g", "t"} {
		if t, ok := strings.CutSuffix(text, unit); ok {
			text, shift = t, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxBytes>>shift {
		return 0, fmt.Errorf("%q is not a number of bytes such as 8, 16k or 4m", s)
	}
	return n << shift, nil
}

// StdoutName is the file name that means standard output.
const StdoutName = "-"

// FailureCode returns the exit code of a command that fails: 2 for data diff, whose 1 means that
// the tables differ.
func FailureCode(args []string) int {
	if i := slices.Index(args, "data"); i > 0 && i+1 < len(args) && args[i+1] == "diff" {
		return 2
	}
	return 1
}

func MaxBadFlag() cli.Flag {
	return &cli.Int64Flag{Name: "max-bad", Usage: "skip up to `NUMBER` records that cannot be used: sets data.max_bad", DefaultText: "the configuration's"}
}

// Settings returns the settings of -set and -max-bad.
func Settings(c *cli.Context) []string {
	set := c.StringSlice("set")
	if c.IsSet("max-bad") {
		set = append(set, fmt.Sprintf("data.max_bad=%d", c.Int64("max-bad")))
	}
	return set
}

// Config reads the configuration of -config for SetAll with these settings. They may mend the faults of the file: both are
// judged together.
func Config(path string, set []string) (*config.Config, error) {
	c, err := config.Load(path)
	if err == nil || len(set) == 0 {
		return c, err
	}
	draft, fault := config.Draft(path)
	if fault != nil {
		return nil, err
	}
	if _, fault := config.SetAll(draft.Clone(), set); fault != nil {
		return nil, err
	}
	return draft, nil
}

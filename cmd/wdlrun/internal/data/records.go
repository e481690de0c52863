package data

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

// recordFlags returns the flags of every command that reads records.
func recordFlags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		&cli.StringSliceFlag{Name: "data", Usage: "read `FILE`, glob or folder; may also be an argument"},
		&cli.StringFlag{Name: "config", Usage: "take the format of the records from configuration `FILE`"},
		command.JSONFlag(),
	}, more...)
}

// table is the input of a command.
type table struct {
	source   schema.Source
	patterns []string
	config   *config.Config // nil if none was given
	label    schema.Label   // two-valued, by guess; without a configuration
	guess    schema.Label   // by guess; without a configuration
	unread   []string       // fields that cannot be read, with reasons
	partial  []string       // columns that some files do not have
	empty    []string       // files without records
	notes    []string       // oddities of the files
	numbers  []string       // numeric fields of text files, by guess
	other    bool           // the files are not the configuration's

	eachText map[string]func(text []byte) // called by describe with each string of a field
}

// open opens the files and finds the fields of their records.
func (t *table) open() (*record.Files, error) {
	f, err := record.OpenFiles(t.source, t.patterns)
	if err != nil {
		return nil, t.unlike(err)
	}
	if t.config != nil {
		t.unread = f.Unread()
	}
	t.partial, t.empty = f.Partial(), f.Empty()
	return f, nil
}

// unlike adds to an error a hint if the files seem to have another layout than the
// configuration.
func (t *table) unlike(err error) error {
	if hint := t.hint(); err != nil && hint != "" {
		return fmt.Errorf("%w\n%s", err, hint)
	}
	return err
}

// hint returns advice about files that seem to have another layout than the configuration;
// "" if they do not.
func (t *table) hint() string {
	if !t.other {
		return ""
	}
	src := t.source
	if !src.HasLayout() && !schema.NamesFields(src.Format) {
		src = t.config.Data // the format of LibSVM may be only a guess
	}
	what := inspect.Unlike(src, t.patterns)
	if what != "" {
		what += ": convert them (wdlrun data convert), or give a configuration of their own (wdlrun init)"
	}
	return what
}

// records returns the input of a command, with its format.
func records(c *cli.Context) (table, error) { return recordsAs(c, nil) }

// recordsAs is records with settings that override the configuration.
func recordsAs(c *cli.Context, set []string) (table, error) {
	return tableOf(c, append(c.StringSlice("data"), c.Args().Slice()...), set)
}

// tableOf is recordsAs for these files.
func tableOf(c *cli.Context, patterns, set []string) (t table, err error) {
	t.patterns = patterns
	if path := command.PathOf(c, "config"); path != "" {
		if t.config, err = command.Config(path, set); err != nil {
			return t, err
		}
	} else if len(t.patterns) > 0 && strings.HasPrefix(t.patterns[0], "builtin:") {
		t.config = config.Default()
	}
	if t.config == nil && len(set) > 0 {
		return t, fmt.Errorf("-set %s replaces a setting of a configuration: give -config FILE; wdlrun init -data FILE writes one", set[0])
	}
	if t.config != nil {
		removed, err := config.SetAll(t.config, set)
		if err != nil {
			return t, err
		}
		for _, line := range removed {
			t.notes = append(t.notes, "-set "+line)
		}
		filled := t.config.Clone()
		filled.Fill()
		t.source, t.label = t.config.Data, filled.Label
		if len(t.patterns) == 0 {
			t.patterns = t.config.Data.Train
			return t, nil
		}
		t.other = true
		if t.source, err = inspect.For(t.source, t.patterns); err != nil {
			return t, t.unlike(err)
		}
		return t, nil
	}
	if len(t.patterns) == 0 {
		return t, fmt.Errorf("which file? wdlrun data %s FILE", c.Command.Name)
	}
	look := func() (*inspect.Inspection, error) { return inspect.First(t.patterns[0], 0) }
	if c.Command.Name == "stats" { // guesses the label, as init does
		look = func() (*inspect.Inspection, error) { return inspect.All(t.patterns, 0) }
	}
	seen, err := look()
	if err != nil {
		return t, err
	}
	t.source, t.unread, t.notes = seen.Source(), seen.Unread, seen.Notes
	for i := range seen.Columns {
		if c := &seen.Columns[i]; c.Kind != "string" && t.source.HasLayout() {
			t.numbers = append(t.numbers, c.Name)
		}
	}
	if seen.OneClass() != nil {
		return t, nil // no other column is a guess
	}
	t.guess = schema.Label{Field: seen.Label, Positive: seen.Positive, Threshold: seen.Threshold}
	if slices.ContainsFunc(seen.Columns, func(c inspect.Column) bool { return c.Name == seen.Label && c.Distinct == 2 }) {
		t.label = t.guess
	}
	return t, nil
}

// warnUnread prints the fields that are left out because they cannot be read, those that some files
// do not have, and files without records.
func warnUnread(p *command.Program, t table) {
	for _, field := range t.unread {
		fmt.Fprintf(p.Stderr, "wdlrun: not read: %s\n", field)
	}
	for _, column := range t.partial {
		fmt.Fprintf(p.Stderr, "wdlrun: %s\n", column)
	}
	if n := len(t.empty); n > 0 {
		const shown = 5
		fmt.Fprintf(p.Stderr, "wdlrun: left out, because there are no records in %s: %s%s\n", map[bool]string{true: "it", false: "them"}[n == 1], strings.Join(t.empty[:min(n, shown)], ", "), further(n-shown))
	}
}

// further says how many of a list are left out.
func further(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(", and %d more", n)
}

// warnBad warns about records skipped by a command whose purpose is not to find them.
func warnBad(p *command.Program, w record.Walked, all []string) error {
	if w.Bad == 0 {
		return nil
	}
	if w.Records == 0 {
		return fmt.Errorf("none of %d records can be read: %w", w.Bad, &w.Faults[0])
	}
	fmt.Fprintf(p.Stderr, "wdlrun: %s that cannot be read left out, the first: %s: %s\nwdlrun: to see more: wdlrun data check %s\n",
		plural.Of(int(w.Bad), "record"), w.Faults[0].Place(), w.Faults[0].Reason(), command.QuotedPaths(all))
	return nil
}

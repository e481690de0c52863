package data

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

func showCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "print the first records: one line per field, one column per record",
		UsageText: "wdlrun data show [-records N] [flags] FILE…",
		Description: `A missing value is shown as ·, also in a list. The values of a list are separated by commas. Long
values are cut, except with -json: {"fields": […], "records": [[[value or null, …], …], …]}.

Examples:
   wdlrun data show clicks.csv
   wdlrun data show -records 100 -json day_0.parquet | jq .records[7]`,
		Flags: recordFlags(
			&cli.IntFlag{Name: "records", Value: 5, Usage: "show `N` records"},
			&cli.IntFlag{Name: "width", Value: 16, Usage: "cut values after `N` characters"}),
		Action: p.Action(dataShow),
	}
}

func dataShow(p *command.Program, c *cli.Context) error {
	t, err := records(c)
	if err != nil {
		return err
	}
	f, err := t.open()
	if err != nil {
		return err
	}
	warnUnread(p, t)
	n, fields := c.Int("records"), f.Fields()
	if n < 1 || c.Int("width") < 1 {
		return fmt.Errorf("data show: -records %d and -width %d must be at least 1", n, c.Int("width"))
	}
	all, late, w, err := firstRecords(c, f, fields, n)
	if err == nil && len(late) > 0 {
		f, fields = f.With(late), append(fields, late...)
		all, _, w, err = firstRecords(c, f, fields, n)
	}
	if err != nil {
		return err
	}
	if err := warnBad(p, w, t.patterns); err != nil {
		return err
	}
	if command.AsJSON(c) {
		return p.PrintJSON(map[string]any{"files": f.Names(), "format": formatName(t.source), "fields": fields, "records": all})
	}
	rows := [][]string{{"field"}}
	for i := range all {
		rows[0] = append(rows[0], fmt.Sprint(i+1))
	}
	for i, name := range fields {
		row := []string{name}
		for _, r := range all {
			row = append(row, shownList(r[i], c.Int("width")))
		}
		rows = append(rows, row)
	}
	fmt.Fprintf(p.Stdout, "%s: %s, %d fields\n", f.Names()[0], formatName(t.source), len(fields))
	_, err = fmt.Fprint(p.Stdout, command.Aligned(rows))
	return err
}

// firstRecords returns the values of the first n records, by record and field. late are
// further fields that these records have.
func firstRecords(c *cli.Context, f *record.Files, fields []string, n int) (all [][][]any, late []string, w record.Walked, err error) {
	w, late, err = f.Survey(c.Context, fields, 1, func(lists []value.List) error {
		all = append(all, valuesOf(lists))
		if len(all) == n {
			return record.Stop
		}
		return nil
	}, nil)
	return all, late, w, err
}

func formatName(s schema.Source) string {
	if s.Format == "" {
		return schema.Formats()[0]
	}
	return s.Format
}

// valuesOf returns the values of each field, as text, and nil for a null in a list.
func valuesOf(lists []value.List) [][]any {
	record := make([][]any, len(lists))
	for i := range lists {
		record[i] = []any{}
		for j := range lists[i].All {
			if j < 0 {
				record[i] = append(record[i], nil)
				continue
			}
			record[i] = append(record[i], string(lists[i].Append(nil, j)))
		}
	}
	return record
}

// shownList formats the values of a field as one word of at most width characters.
func shownList(values []any, width int) string {
	texts := make([]string, len(values))
	for i, v := range values {
		if texts[i] = "·"; v != nil {
			texts[i] = v.(string)
		}
	}
	return shownValue(strings.Join(texts, ","), width)
}

// shownValue formats a text as one word of at most width characters.
func shownValue(s string, width int) string {
	if s == "" {
		return "·"
	}
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == utf8.RuneError {
			return '¿'
		}
		return r
	}, s)
	if r := []rune(s); len(r) > width {
		s = string(r[:max(width-1, 1)]) + "…"
	}
	return s
}

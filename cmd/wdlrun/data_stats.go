package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/data"
	"github.com/wdlrun/wdlrun/data/stats"
	"github.com/wdlrun/wdlrun/data/value"
)

func statsCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "stats",
		Usage:     "types, different and missing values, range and mean of each field; how often the label is 1",
		UsageText: "wdlrun data stats [flags] FILE…",
		Description: `Reads every record once. The number of different values is estimated, within
about 2 %. The label is that of -config; without, a column of two values that
looks like one.

Examples:
   wdlrun data stats clicks.csv
   wdlrun data stats -config ctr.yaml --json`,
		Flags:  recordFlags(),
		Action: p.dataStats,
	}
}

// columnStats is one column of data stats --json.
type columnStats struct {
	Name     string   `json:"name"`
	Type     string   `json:"type"`
	List     bool     `json:"list,omitempty"`
	Missing  float64  `json:"missing"`  // share of the records
	Distinct int64    `json:"distinct"` // about
	Min      *float64 `json:"min,omitempty"`
	Mean     *float64 `json:"mean,omitempty"`
	Max      *float64 `json:"max,omitempty"`
	Sum      *float64 `json:"sum,omitempty"`
}

// tableStats is the whole of it.
type tableStats struct {
	Files     []string      `json:"files"`
	Format    string        `json:"format"`
	Records   int64         `json:"records"`
	Bad       int64         `json:"bad"`
	Label     string        `json:"label,omitempty"`
	LabelRate *float64      `json:"label_rate,omitempty"`
	Columns   []columnStats `json:"columns"`
}

// describe gathers the statistics of every field.
func (p *program) describe(c *cli.Context, what string, t table, f *data.Files, fields []string) ([]*stats.Column, int64, data.Walked, error) {
	columns := make([]*stats.Column, len(fields))
	for i := range columns {
		columns[i] = stats.New(t.source.Missing)
	}
	label, ones := slices.Index(fields, t.label.Field), int64(0)
	w, err := f.Walk(c.Context, fields, 1, func(lists []value.List) error {
		for i := range lists {
			columns[i].Add(&lists[i])
		}
		if label >= 0 && isOne(&lists[label], t.label) {
			ones++
		}
		return nil
	}, progress(p.stderr, what, f.Bytes()))
	return columns, ones, w, err
}

// isOne tells whether a field means the label 1.
func isOne(l *value.List, rule data.Label) bool {
	if l.Len() != 1 {
		return false
	}
	text := string(l.Append(nil, 0))
	if rule.Threshold != nil {
		x, err := strconv.ParseFloat(text, 64)
		return err == nil && x >= *rule.Threshold
	}
	return slices.Contains(rule.Positive, text)
}

func (p *program) dataStats(c *cli.Context) error {
	t, err := records(c)
	if err != nil {
		return err
	}
	if t.config != nil {
		filled := t.config.Clone()
		filled.Fill()
		t.label = filled.Label
	}
	f, err := t.open()
	if err != nil {
		return err
	}
	fields := f.Fields()
	columns, ones, w, err := p.describe(c, "stats", t, f, fields)
	if err != nil {
		return err
	}
	if err := p.warnBad(w, t.patterns); err != nil {
		return err
	}
	s := tableStats{Files: f.Names(), Format: formatName(t.source), Records: w.Records, Bad: w.Bad}
	if slices.Contains(fields, t.label.Field) {
		rate := float64(ones) / float64(w.Records)
		s.Label, s.LabelRate = t.label.Field, &rate
	}
	for i, name := range fields {
		s.Columns = append(s.Columns, columnOf(name, columns[i]))
	}
	if c.Bool("json") {
		return p.printJSON(s)
	}
	return p.printStats(s)
}

func columnOf(name string, c *stats.Column) columnStats {
	s := columnStats{Name: name, Type: typeName(c.Kind()), List: c.Most > 1, Distinct: c.Distinct()}
	if c.Records > 0 {
		s.Missing = float64(c.Missing) / float64(c.Records)
	}
	if c.Numbers() > 0 && c.Texts == 0 {
		mean, sum := c.Mean(), c.Sum()
		s.Min, s.Mean, s.Max, s.Sum = &c.Min, &mean, &c.Max, &sum
	}
	return s
}

func typeName(k value.Kind) string {
	switch k {
	case value.None:
		return "empty"
	case value.Int:
		return "integer"
	case value.Float32, value.Float64:
		return "number"
	}
	return "text"
}

func (p *program) printStats(s tableStats) error {
	fmt.Fprintf(p.stdout, "%d records in %d %s, %s\n", s.Records, len(s.Files), plural(len(s.Files), "file"), s.Format)
	if s.LabelRate != nil {
		fmt.Fprintf(p.stdout, "the label, %s, is 1 in %.2f %% of them\n", s.Label, 100**s.LabelRate)
	}
	rows := [][]string{{"field", "type", "missing", "distinct", "min", "mean", "max"}}
	for _, c := range s.Columns {
		kind := c.Type
		if c.List {
			kind += " list"
		}
		row := []string{c.Name, kind, fmt.Sprintf("%.2f %%", 100*c.Missing), fmt.Sprint(c.Distinct)}
		if c.Mean != nil {
			row = append(row, short(*c.Min), short(*c.Mean), short(*c.Max))
		}
		rows = append(rows, row)
	}
	_, err := fmt.Fprint(p.stdout, aligned(rows))
	return err
}

// short is a number as people read it.
func short(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e12 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', 5, 64)
}

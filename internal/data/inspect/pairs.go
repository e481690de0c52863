package inspect

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/date"
	"github.com/wdlrun/wdlrun/internal/data/pairs"
	"github.com/wdlrun/wdlrun/internal/data/signal"
	"github.com/wdlrun/wdlrun/internal/data/value"
)

// Part is a feature of one column, for Pairs.
type Part struct {
	Column int    // index in Columns
	Encode string // of schema.Feature
	Single bool   // no pair contains it
}

// Pairs finds the pairs of some features that say more about the label than their parts. The rows
// are those with a label, and with a weight above 0 if a column has weights (weight ≥ 0). If a
// column contains times, only earlier rows predict a row: a newer row may reveal what happened
// before.
func (in *Inspection) Pairs(parts []Part, weight int) pairs.Found {
	t, rows := in.table(weight)
	for _, p := range parts {
		t.Columns = append(t.Columns, in.coded(p, rows))
	}
	return pairs.Search(&t)
}

// table returns the rows that Pairs measures, without columns.
func (in *Inspection) table(weight int) (t pairs.Table, rows []int) {
	label := in.column(in.Label)
	if label == nil || len(label.cells.ends) < in.Rows {
		return t, nil
	}
	for i := range in.Rows {
		if len(label.cells.of(i)) == 1 && (weight < 0 || !in.Columns[weight].isZero(i)) {
			rows = append(rows, i)
		}
	}
	t.Ordered = in.sortByTime(rows)
	for _, i := range rows {
		t.Ones = append(t.Ones, in.isOne(label.cells.of(i)[0]))
	}
	return t, rows
}

// coded returns the column of a feature.
func (in *Inspection) coded(p Part, rows []int) (c pairs.Column) {
	words, word := make([]uint64, len(rows)), in.Columns[p.Column].wordsBy(p.Encode)
	for k, i := range rows {
		words[k] = word(i)
	}
	if p.Encode == "quantile" || p.Encode == "age" {
		c = pairs.Ranges(words)
	} else {
		c = pairs.Values(words)
	}
	c.Part = p.Single
	return c
}

// Alone returns what the rates of the values of some columns gain in log-loss per row, compared with
// the mean rate; 0 if chance explains it. It returns nil if there are too few rows of a class.
func (in *Inspection) Alone(columns []int, weight int) []float64 {
	t, rows := in.table(weight)
	var of []pairs.Column
	for _, c := range columns {
		of = append(of, in.coded(Part{Column: c}, rows))
	}
	return pairs.Beyond(&t, of)
}

// AsIDs returns what the values of some columns of numbers gain in log-loss per row if each has a
// weight of its own, beyond a model of all columns in which these are divided into ranges; 0 if chance
// explains it. It returns nil if there are too few rows of a class.
func (in *Inspection) AsIDs(columns []int, weight int) []float64 {
	t, rows := in.table(weight)
	var of []pairs.Column
	for i := range in.Columns {
		c := &in.Columns[i]
		if c.Name == in.Label || i == weight || c.Distinct < 2 || c.Many || c.Signal.Leaks() {
			continue
		}
		p := Part{Column: i}
		if c.Kind != "string" && c.Distinct > fewShapes {
			p.Encode = "quantile"
		}
		t.Columns = append(t.Columns, in.coded(p, rows))
	}
	for _, c := range columns {
		of = append(of, in.coded(Part{Column: c}, rows))
	}
	return pairs.Beyond(&t, of)
}

// Sample returns the values of the records as a file: of CSV, or of JSON lines if records hold lists. It
// returns nil for numbers of features, and for lists with missing elements.
func (in *Inspection) Sample() (b []byte, format string) {
	if in.Format == "libsvm" || in.Format == "libffm" {
		return nil, ""
	}
	many := slices.ContainsFunc(in.Columns, func(c Column) bool { return c.Many })
	for i := range in.Columns {
		c := &in.Columns[i]
		if len(c.cells.ends) < in.Rows {
			return nil, ""
		}
		for r := range c.cells.places {
			if own := len(c.cells.of(r)); c.Many && own > 0 && c.length(r) != own {
				return nil, ""
			}
		}
	}
	var out bytes.Buffer
	if many {
		for r := range in.Rows {
			record := map[string]any{}
			for i := range in.Columns {
				c := &in.Columns[i]
				if own := c.cells.of(r); c.Many {
					record[c.Name] = own
				} else if len(own) > 0 {
					record[c.Name] = own[0]
				}
			}
			line, _ := json.Marshal(record) // strings only
			out.Write(append(line, '\n'))
		}
		return out.Bytes(), "jsonl"
	}
	w := csv.NewWriter(&out)
	row := make([]string, len(in.Columns))
	for i := range in.Columns {
		row[i] = in.Columns[i].Name
	}
	w.Write(row)
	for r := range in.Rows {
		for i := range in.Columns {
			if row[i] = ""; len(in.Columns[i].cells.of(r)) > 0 {
				row[i] = in.Columns[i].cells.of(r)[0]
			}
		}
		w.Write(row)
	}
	w.Flush()
	return out.Bytes(), "csv"
}

// Sampled returns the inspection of a file of Sample.
func (in *Inspection) Sampled(path, format string) *Inspection {
	x := *in
	x.Path, x.More, x.Names, x.Files, x.Format, x.Delimiter, x.Header = path, nil, []string{path}, 1, format, "", format == "csv"
	if format == "csv" {
		x.Delimiter = ","
	}
	x.Comment, x.Escape, x.Multiline, x.Unread = "", "", format == "csv", nil
	return &x
}

// isZero reports whether the value of a record is the number 0.
func (c *Column) isZero(record int) bool {
	own := c.cells.of(record)
	if len(own) != 1 {
		return false
	}
	x, why := value.ParseNumber([]byte(own[0]))
	return why == "" && x == 0
}

// sortByTime sorts rows by the first column of times. It returns false if there is none.
func (in *Inspection) sortByTime(rows []int) bool {
	i := slices.IndexFunc(in.Columns, func(c Column) bool { return c.hasTimes() && c.Name != in.Label })
	if i < 0 {
		return false
	}
	seconds := make([]int64, in.Rows)
	read := in.Columns[i].seconds()
	for _, r := range rows {
		seconds[r], _ = read(r)
	}
	slices.SortStableFunc(rows, func(a, b int) int { return int(min(1, max(-1, seconds[a]-seconds[b]))) })
	return true
}

// hasTimes reports whether the column contains dates with hours, or dates of folders.
func (c *Column) hasTimes() bool { return c.Dates.Format != "" && (c.Dates.Hours || c.Folder) }

// seconds returns a function that returns the time of a record in seconds, and whether it has one.
func (c *Column) seconds() func(record int) (int64, bool) {
	f, _ := date.NewFormat(c.Dates.Format)
	return func(record int) (int64, bool) {
		if own := c.cells.of(record); len(own) == 1 {
			return f.Seconds([]byte(own[0]))
		}
		return 0, false
	}
}

// wordsBy returns a function that returns the word of package signal for a feature of a record.
func (c *Column) wordsBy(encode string) func(record int) uint64 {
	clock := date.NewClock(time.UTC)
	var of func(seconds int64) int
	switch encode {
	case "hour":
		of = clock.Hour
	case "weekday":
		of = clock.Weekday
	case "month":
		of = clock.Month
	case "age":
		of = func(s int64) int { return int(s) }
	default:
		return c.word
	}
	read := c.seconds()
	return func(record int) uint64 {
		if s, ok := read(record); ok {
			return signal.Word(float64(of(s)))
		}
		return signal.Missing
	}
}

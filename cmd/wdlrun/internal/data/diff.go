package data

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/data/write"
	"github.com/wdlrun/wdlrun/internal/text/plural"
)

func diffCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "compare two tables, record by record and field by field",
		UsageText: "wdlrun data diff [flags] A B",
		Description: `A and B are a file, a glob in quotes or a folder each, in any two formats. Record 1 of A is
compared with record 1 of B, and so on, in the order of the files. Fields are found by name.

Values are compared as text, in the form in which training reads them, so that a number has
the same text in every format. A list is compared value by value. In CSV and TSV, a|b is equal
to a list of a and b. Missing values are equal, and so are the empty string and the words that
mean missing (see wdlrun data convert --help). Infinities are numbers.

For each field that differs, the table shows in how many records, in how many of these both
values are the same number in another form (39 and 39.0, true and True), and the first record
with both values. A missing value is shown as ·.

The exit code is 0 if the tables are equal, 1 if they differ, and 2 if they cannot be compared,
for example because a record cannot be read.

Examples:
   wdlrun data diff clicks.csv clicks.parquet
   wdlrun data diff before/ 'after/**/*.parquet'
   wdlrun data diff -json a.csv b.csv | jq '.differing[] | .field'`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Usage: "take the format of the records from configuration `FILE`"},
			command.JSONFlag(),
			&cli.IntFlag{Name: "show", Value: 20, Usage: "print up to `N` fields that differ; -json has all of them"},
		},
		Action: func(c *cli.Context) error {
			err := diffTables(p, c)
			if differ := command.Exit(0); err != nil && !errors.As(err, &differ) {
				return fmt.Errorf("data diff: %w", err)
			}
			return err
		},
	}
}

// operand is one of two tables that are compared.
type operand struct {
	Name    string   `json:"name"`
	Files   []string `json:"files"`
	Format  string   `json:"format"`
	Records int64    `json:"records"`
	Fields  int      `json:"fields"`
	Only    []string `json:"only"`             // fields that the other does not have
	Unread  []string `json:"unread,omitempty"` // fields that cannot be read, with reasons

	table
	files *record.Files
	late  []string // fields that no first record has
	bad   record.Walked
	err   error
	cells [][]byte // the current values, nil for a null
	text  []byte
}

// fieldDiff is a field that differs.
type fieldDiff struct {
	Field   string  `json:"field"`
	Records int64   `json:"records"`
	Share   float64 `json:"share"`       // of the records that both have
	Number  int64   `json:"same_number"` // of Records: the same number in another form
	First   int64   `json:"first"`       // the first record that differs, from 1
	A       []any   `json:"a"`           // its values, nil for a null
	B       []any   `json:"b"`

	truths [2]string // the first truth value that is written in two ways
}

// ruled counts the values of a field that are equal only by a rule.
type ruled struct {
	Field   string `json:"field"`
	Missing int64  `json:"missing"` // records: null, the empty string and words that mean missing
	Lists   int64  `json:"lists"`   // records: a|b and a list
}

// tableDiff is how two tables differ, and the JSON form of data diff.
type tableDiff struct {
	A         operand     `json:"a"`
	B         operand     `json:"b"`
	Fields    int         `json:"fields"`   // that both have
	ByRule    []ruled     `json:"by_rule"`  // fields with values that are equal only by a rule
	Compared  int64       `json:"compared"` // records that both have
	Differing []fieldDiff `json:"differing"`
	Equal     bool        `json:"equal"`
	Error     string      `json:"error,omitempty"` // how they differ
	Code      int         `json:"exit_code,omitempty"`
}

// diffTables is the command data diff.
func diffTables(p *command.Program, c *cli.Context) (err error) {
	if c.NArg() != 2 {
		return fmt.Errorf("give two tables, not %d; put a glob in quotes: wdlrun data diff clicks.csv 'day_*.parquet'", c.NArg())
	}
	if c.Int("show") < 1 {
		return fmt.Errorf("-show %d must be at least 1", c.Int("show"))
	}
	var d tableDiff
	for i, o := range []*operand{&d.A, &d.B} {
		o.Name = c.Args().Get(i)
		if o.table, err = tableOf(c, []string{o.Name}, nil); err != nil {
			return err
		}
		if o.files, err = o.open(); err != nil {
			return err
		}
		warnUnread(p, o.table)
		o.Files, o.Format, o.Unread = o.files.Names(), formatName(o.source), o.unread
	}
	progress := p.Progress.Read("diff", d.A.files.Bytes()+d.B.files.Bytes())
	err = d.compare(c.Context, progress)
	if late := len(d.A.late) + len(d.B.late); err == nil && late > 0 {
		d.A.files, d.B.files = d.A.files.With(d.A.late), d.B.files.With(d.B.late)
		err = d.compare(c.Context, progress)
	}
	if err != nil {
		return err
	}
	if d.conclude(); command.AsJSON(c) {
		err = p.PrintJSON(d)
	} else {
		err = d.print(p.Stdout, c.Int("show"))
	}
	if err == nil && !d.Equal {
		return command.Exit(1)
	}
	return err
}

// records yields the records of o, and sets its results at the end.
func (o *operand) records(ctx context.Context, names []string, progress func(int64)) iter.Seq[[]value.List] {
	return func(yield func([]value.List) bool) {
		o.bad, o.late, o.err = o.files.Survey(ctx, names, 1, func(lists []value.List) error {
			if o.Records++; !yield(lists) {
				return record.Stop
			}
			return nil
		}, progress)
		if o.err == nil && o.bad.Bad > 0 {
			o.err = fmt.Errorf("%s: %s cannot be read, so that the others have no counterpart; the first: %w; to see more: wdlrun data check %s",
				o.Name, plural.Of(int(o.bad.Bad), "record"), &o.bad.Faults[0], command.QuotedPath(o.Name))
		}
	}
}

// compare reads both tables once, in step.
func (d *tableDiff) compare(ctx context.Context, progress func(int64)) error {
	a, b := &d.A, &d.B
	inA, inB := a.files.Fields(), b.files.Fields()
	a.Only, b.Only = command.Without(slices.Clone(inA), inB), command.Without(slices.Clone(inB), inA)
	names := command.Without(slices.Clone(inA), a.Only)
	a.Fields, b.Fields, a.Records, b.Records = len(inA), len(inB), 0, 0
	d.Fields, d.Compared = len(names), 0
	fields, byRule := make([]fieldDiff, len(names)), make([]ruled, len(names))
	var done [2]int64
	report := func(i int) func(int64) { return func(n int64) { done[i] = n; progress(done[0] + done[1]) } }
	nextA, stopA := iter.Pull(a.records(ctx, names, report(0)))
	defer stopA()
	nextB, stopB := iter.Pull(b.records(ctx, names, report(1)))
	defer stopB()
	for {
		x, okA := nextA()
		y, okB := nextB()
		if err := cmp.Or(a.err, b.err); err != nil {
			return err
		}
		if !okA && !okB {
			break
		}
		if !okA || !okB {
			continue // only counted
		}
		d.Compared++
		for i := range fields {
			if !d.sameValues(&x[i], &y[i], &byRule[i]) {
				fields[i].add(names[i], d)
			}
			byRule[i].Field = names[i]
		}
	}
	d.Differing = slices.DeleteFunc(fields, func(f fieldDiff) bool { return f.Records == 0 })
	d.ByRule = slices.DeleteFunc(byRule, func(f ruled) bool { return f.Missing+f.Lists == 0 })
	return nil
}

// read makes the values of a list the current ones.
func (o *operand) read(l *value.List) {
	o.cells, o.text = o.cells[:0], o.text[:0]
	for i := range l.All {
		switch {
		case i < 0:
			o.cells = append(o.cells, nil)
		case l.Kind == value.Text && len(l.Texts[i]) == 0 && o.isLines():
			o.cells = append(o.cells, nil) // lines have no other null
		case l.Kind == value.Text:
			o.cells = append(o.cells, l.Texts[i])
		default:
			at := len(o.text)
			o.text = l.Append(o.text, i)
			o.cells = append(o.cells, o.text[at:])
		}
	}
}

// isMissing reports whether a value is empty or a word that means missing. Infinity is a number: two tables that
// differ in it differ, although training takes both as missing.
func (o *operand) isMissing(b []byte) bool {
	return len(b) == 0 || !value.IsInfinite(string(b)) && slices.ContainsFunc(o.source.Missing, func(word string) bool { return string(b) == word })
}

// isLines reports whether values are fields of lines, which have no nulls and no lists.
func (o *operand) isLines() bool { return o.Format == "csv" || o.Format == "tsv" }

// split separates the values of a list that is a field of a line, if the other table has a list. It
// reports whether there were any.
func (o *operand) split(other *operand) bool {
	if o.isLines() && len(o.cells) == 1 && len(other.cells) > 1 {
		o.cells = bytes.Split(o.cells[0], []byte{write.Separator})
		return len(o.cells) > 1
	}
	return false
}

// sameValues reports whether the values of a field are equal, and counts those that a rule makes equal.
func (d *tableDiff) sameValues(x, y *value.List, rule *ruled) bool {
	a, b := &d.A, &d.B
	a.read(x)
	b.read(y)
	split := a.split(b)
	split = b.split(a) || split
	same, exact := len(a.cells) == len(b.cells), true
	for i := 0; same && i < len(a.cells); i++ {
		p, q := a.cells[i], b.cells[i]
		equal := bytes.Equal(p, q) && (p == nil) == (q == nil)
		exact = exact && equal
		same = equal || a.isMissing(p) && b.isMissing(q)
	}
	present := func(o *operand) bool {
		return slices.ContainsFunc(o.cells, func(b []byte) bool { return !o.isMissing(b) })
	}
	word := func(o *operand) bool { return slices.ContainsFunc(o.cells, func(b []byte) bool { return b != nil }) }
	none := !present(a) && !present(b)
	switch {
	case !same && !none:
		return false
	case split && !none:
		rule.Lists++
	case same && !exact, !same && (word(a) || word(b)):
		rule.Missing++
	}
	return true
}

// add counts the current values, which differ.
func (f *fieldDiff) add(name string, d *tableDiff) {
	if f.Records++; f.Records == 1 {
		f.Field, f.First, f.A, f.B = name, d.Compared, d.A.values(), d.B.values()
	}
	if len(d.A.cells) != 1 || len(d.B.cells) != 1 {
		return
	}
	const exact = 1 << 53 // integers beyond may be rounded to the same number
	x, errX := strconv.ParseFloat(string(d.A.cells[0]), 64)
	y, errY := strconv.ParseFloat(string(d.B.cells[0]), 64)
	if errX == nil && errY == nil && (x == y && math.Abs(x) < exact || math.IsNaN(x) && math.IsNaN(y)) {
		f.Number++
		return
	}
	if a, b := string(d.A.cells[0]), string(d.B.cells[0]); (errX != nil || errY != nil) && slices.Contains(encode.Spellings([]byte(a)), b) {
		if f.Number++; f.truths[0] == "" {
			f.truths = [2]string{a, b}
		}
	}
}

// values returns a copy of the current values; none if all are missing.
func (o *operand) values() []any {
	all, present := []any{}, false
	for _, b := range o.cells {
		if o.isMissing(b) {
			all = append(all, nil)
			continue
		}
		all, present = append(all, string(b)), true
	}
	if !present {
		return []any{}
	}
	return all
}

// conclude computes shares, the order of fields and the verdict.
func (d *tableDiff) conclude() {
	for i := range d.Differing {
		d.Differing[i].Share = float64(d.Differing[i].Records) / float64(d.Compared)
	}
	slices.SortStableFunc(d.Differing, func(x, y fieldDiff) int { return cmp.Compare(y.Records, x.Records) })
	var how []string
	if d.A.Records != d.B.Records {
		how = append(how, "the numbers of records")
	}
	if len(d.A.Only)+len(d.B.Only) > 0 {
		how = append(how, "the names of fields")
	}
	if n := len(d.Differing); n > 0 {
		how = append(how, fmt.Sprintf("the values of %d of %s", n, plural.Of(d.Fields, "field")))
	}
	if d.Equal = len(how) == 0; !d.Equal {
		d.Error, d.Code = "they differ in "+strings.Join(how, ", "), 1
	}
}

// print writes the differences, of at most show fields.
func (d *tableDiff) print(w io.Writer, show int) error {
	a, b := &d.A, &d.B
	var rows [][]string
	for _, o := range []*operand{a, b} {
		rows = append(rows, []string{o.Name, o.Format, plural.Of(int(o.Records), "record"), plural.Of(o.Fields, "field")})
	}
	text := command.Aligned(rows)
	for _, o := range []*operand{a, b} {
		if n := len(o.Only); n > 0 {
			text += fmt.Sprintf("fields only in %s: %s%s\n", o.Name, strings.Join(o.Only[:min(n, show)], ", "), further(n-show))
		}
	}
	if n := len(d.Differing); n > 0 {
		rows = [][]string{{"field", "differing", "share", "same number", "first", a.Name, b.Name}}
		for _, f := range d.Differing[:min(n, show)] {
			x, y := shownPair(f.A, f.B)
			rows = append(rows, []string{f.Field, fmt.Sprint(f.Records), fmt.Sprintf("%.2f %%", 100*f.Share), fmt.Sprint(f.Number), fmt.Sprint(f.First), x, y})
		}
		text += command.Aligned(rows)
		for _, f := range d.Differing[:min(n, show)] {
			if f.truths[0] != "" {
				text += fmt.Sprintf("%s: a truth value is written as %s and %s: one number or label, but two keys of a vocabulary that has both\n", f.Field, f.truths[0], f.truths[1])
			}
		}
		if n > show {
			text += fmt.Sprintf("fields that differ%s; -show %d prints all\n", further(n-show), n)
		}
	}
	text += d.rules(show)
	for _, pair := range [][2]*operand{{a, b}, {b, a}} {
		if o := pair[0]; o.Records > pair[1].Records {
			text += fmt.Sprintf("only in %s: %s, from record %d on\n", o.Name, plural.Of(int(o.Records-d.Compared), "record"), d.Compared+1)
		}
	}
	equal := "they are equal"
	if len(a.Unread)+len(b.Unread) > 0 {
		equal += " in the fields that can be read"
	}
	_, err := fmt.Fprintln(w, text+cmp.Or(d.Error, equal))
	return err
}

// rules describes the values that are equal only by a rule.
func (d *tableDiff) rules(show int) string {
	if len(d.ByRule) == 0 {
		return ""
	}
	rows := [][]string{{"equal only by rule", "missing in two forms", "a|b for a list"}}
	for _, f := range d.ByRule[:min(len(d.ByRule), show)] {
		rows = append(rows, []string{f.Field, fmt.Sprint(f.Missing), fmt.Sprint(f.Lists)})
	}
	return command.Aligned(rows)
}

// shownPair formats two values from about where they begin to differ.
func shownPair(a, b []any) (string, string) {
	const width = 32
	texts := [2][]rune{}
	for i, values := range [][]any{a, b} {
		switch len(values) {
		case 0:
		case 1:
			texts[i] = []rune(values[0].(string))
		default:
			texts[i] = []rune(command.Flow(values))
		}
	}
	x, y := texts[0], texts[1]
	same := 0
	for same < min(len(x), len(y)) && x[same] == y[same] {
		same++
	}
	from := same - width/2
	if from <= 0 || max(len(x), len(y)) <= width {
		return shownValue(string(x), width), shownValue(string(y), width)
	}
	cut := func(r []rune) string { return shownValue("…"+string(r[from:]), width) }
	return cut(x), cut(y)
}

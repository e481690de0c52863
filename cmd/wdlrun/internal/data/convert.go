package data

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	tables "github.com/wdlrun/wdlrun/internal/data/table"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/data/write"
)

func convertCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "convert",
		Usage:     "write records in another format",
		UsageText: "wdlrun data convert -out FILE [flags] FILE…",
		Description: `The name of -out determines format and compression: clicks.tsv.gz, clicks.parquet,
clicks.tfrecord.zst, clicks.jsonl, clicks.arrow, clicks.avro, clicks.libsvm. -format and -compress override it.

The first pass finds the fields of all records and their types, the second one writes. In
formats with types, a field is written as integers or numbers if every value reads back in its
original form. A field with 007 or 52.60, or with 1 among numbers such as 2.5, is written as
strings. In TFRecord, so is a field of numbers that are not exact in 32 bits. Blanks around an
unquoted field are dropped. A table lists each field of which values are written in another form
than they were read, with their number and the reason.

Words that mean missing become missing values: the words of data.missing in -config. Without
-config, words such as NA stay strings in a field of strings. In a field of numbers or truth
values of CSV or TSV they become missing, if the output has types; so do they in all fields for
LibSVM, LibFFM and -codes. A line names each such field, the word and its number. These words are
?, NA, N/A, NaN, nan, null, NULL, None, \N and #N/A, if they occur in the first 10,000 lines.
Infinities are numbers, and so is NaN of other formats. An empty string is missing. Columns of
Parquet that cannot be read, such as lists of lists, are left out and reported.

LibSVM and LibFFM contain only numbers, so 52.60 becomes 52.6. -codes FILE replaces the
strings of each field by 1, 2, 3, … and lists the numbers in FILE. Strings of the label become
1 or 0. label.positive of -config names those that become 1; without it they are guessed. The
first field of these formats is the label: without -fields it is the label of -config, or the
field that looks like one.

Examples:
   wdlrun data convert -out clicks.parquet clicks.csv
   wdlrun data convert -out clicks.csv.zst 'part-*.tfrecord.gz'
   wdlrun data convert -out adult.libsvm -codes adult.codes builtin:adult.data
   wdlrun data convert -fields label,I1,C1 -out few.csv day_0.tsv`,
		Flags: recordFlags(
			&cli.StringFlag{Name: "out", Usage: "write to `FILE`, which must not exist"},
			&cli.StringFlag{Name: "format", Usage: "write `FORMAT`: " + strings.Join(write.Formats(), ", "), DefaultText: "by the name of -out"},
			&cli.StringFlag{Name: "compress", Usage: "compress with `HOW`: " + strings.Join(write.Packings(), ", "), DefaultText: "by the name of -out; snappy for parquet, zstd for arrow, gzip for avro"},
			&cli.StringFlag{Name: "fields", Usage: "write the fields `NAMES`, in this order, separated by commas", DefaultText: "all"},
			&cli.StringFlag{Name: "codes", Usage: "replace strings by numbers, and write the strings to `FILE`"},
			&cli.Int64Flag{Name: "max-bad", Usage: "skip up to `N` records that cannot be read"},
		),
		Action: p.Action(dataConvert),
	}
}

// conversion holds the settings of data convert.
type conversion struct {
	table
	files   *record.Files
	fields  []string
	columns []write.Column
	changed []change
	target  Target
	codes   *write.Codes // nil if not requested
	codesTo string
}

func dataConvert(p *command.Program, c *cli.Context) error {
	v, err := planConversion(p, c)
	if err != nil {
		return fmt.Errorf("data convert: %w", err)
	}
	began := time.Now()
	w, bytes, err := convertRecords(c.Context, p, c.Int64("max-bad"), v)
	if err != nil {
		return fmt.Errorf("data convert: %w", err)
	}
	if command.AsJSON(c) {
		return p.PrintJSON(map[string]any{
			"files": v.files.Names(), "from": formatName(v.source), "to": v.target.Format, "out": v.target.Path,
			"records": w.Records, "bad": w.Bad, "bytes": bytes, "fields": v.fields, "changed": v.changed, "seconds": time.Since(began).Seconds(),
		})
	}
	if n := len(v.changed); n > 0 {
		const shown = 30
		rows := [][]string{{"field", "values", "in " + v.target.Format}}
		for _, c := range v.changed[:min(n, shown)] {
			rows = append(rows, []string{c.Field, fmt.Sprint(c.Values), c.How})
		}
		if n > shown {
			rows = append(rows, []string{fmt.Sprintf("%d more", n-shown), "", "see --json"})
		}
		fmt.Fprint(p.Stderr, command.Aligned(rows))
	}
	if err := warnBad(p, w, v.patterns); err != nil {
		return err
	}
	fmt.Fprintf(p.Stderr, "wrote %d records of %d fields, %d bytes, to %s\nnext: %s data show %s\n", w.Records, len(v.fields), bytes, v.target.Path, command.Called(os.Args[0]), command.QuotedPath(v.target.Path))
	return nil
}

// planConversion determines input and output.
func planConversion(p *command.Program, c *cli.Context) (v conversion, err error) {
	if v.table, err = records(c); err != nil {
		return v, err
	}
	if v.target, err = TargetOf(command.PathOf(c, "out"), c.String("format"), c.String("compress")); err != nil {
		return v, err
	}
	for _, path := range []string{v.target.Path, command.PathOf(c, "codes")} {
		if path == "" {
			continue
		}
		if err := isFree(path); err != nil { // what follows takes a while
			return v, err
		}
	}
	if v.config == nil && !v.target.pairs() && c.String("codes") == "" && (!v.source.HasLayout() || v.target.isLines()) {
		v.source.Missing = nil // other formats have values of their own that are missing, and lines keep every word
	}
	if v.config == nil {
		v.source.Missing = slices.DeleteFunc(slices.Clone(v.source.Missing), value.IsInfinite) // columns of numbers hold them
	}
	if v.files, err = v.open(); err != nil {
		return v, err
	}
	if c.String("fields") == "" {
		warnUnread(p, v.table)
	}
	v.codesTo = command.PathOf(c, "codes")
	if err := chooseFields(p, c, &v); err != nil {
		return v, err
	}
	if err := typesOf(p, c, &v); err != nil {
		return v, err
	}
	if v.target.Format == "criteo" && !slices.Equal(v.fields, schema.CriteoFields()) {
		return v, errors.New("criteo is the layout label, I1 … I13, C1 … C26, and these records have other fields; write tsv")
	}
	return v, v.code()
}

// chooseFields determines the fields to write, except those that typesOf finds late.
func chooseFields(p *command.Program, c *cli.Context, v *conversion) (err error) {
	var wanted []string
	if names := c.String("fields"); names != "" {
		wanted = strings.Split(names, ",")
	} else if v.target.pairs() && v.label.Field != "" {
		wanted = []string{v.label.Field}
	}
	if v.files, err = v.files.Learn(c.Context, wanted, p.Progress.Read("convert: fields", v.files.Bytes())); err != nil {
		return err
	}
	if v.fields = v.files.Fields(); c.String("fields") != "" {
		v.fields = wanted
	} else if i := slices.Index(v.fields, v.label.Field); i > 0 && v.target.pairs() {
		v.fields = append([]string{v.label.Field}, slices.Delete(v.fields, i, i+1)...) // the label begins a line
	}
	return nil
}

// code prepares the numbers of strings, if they are needed.
func (v *conversion) code() error {
	label := slices.Index(v.fields, v.label.Field)
	if v.target.pairs() {
		label = max(slices.Index(v.fields, "label"), 0) // as package write does
	}
	if v.codesTo == "" {
		var texts []string
		for i, c := range v.columns {
			if v.target.pairs() && i != label && c.Kind == value.Text {
				texts = append(texts, c.Name)
			}
		}
		if len(texts) > 0 {
			return fmt.Errorf("%s holds only numbers, but these columns have strings: %s; -codes FILE replaces strings by numbers and lists them in FILE; or name the other columns in -fields", v.target.Format, strings.Join(texts, ", "))
		}
		return nil
	}
	ofTexts := label >= 0 && v.columns[label].Kind == value.Text
	v.codes = write.NewCodes(v.columns)
	if v.columns = v.codes.Columns(); !ofTexts {
		return nil
	}
	rule := v.label
	if rule.Field != v.fields[label] || len(rule.Positive) == 0 {
		return fmt.Errorf("column %s is the label and has strings: set label.field and label.positive in -config FILE to say which of them mean 1", v.fields[label])
	}
	v.codes.Label(label, func(text string) (one, ok bool) {
		one = slices.Contains(rule.Positive, text)
		return one, one || len(rule.Negative) == 0 || slices.Contains(rule.Negative, text)
	})
	return nil
}

// typesOf finds the types of the fields. If the output needs them it reads all records.
func typesOf(p *command.Program, c *cli.Context, v *conversion) error {
	untyped := v.target.isLines() && v.codesTo == ""
	if untyped && isLines(formatName(v.source)) {
		for _, name := range v.fields {
			v.columns = append(v.columns, write.Column{Name: name, Kind: value.Text})
		}
		return nil
	}
	stored, err := v.files.Types()
	if err != nil {
		return err
	}
	times, escaped := map[string]*write.Times{}, map[string]*int64{}
	v.eachText = map[string]func([]byte){}
	for name, d := range stored {
		if d.Type == tables.TypeBytes {
			n := new(int64)
			escaped[name], v.eachText[name] = n, func(text []byte) {
				if bytes.Contains(text, []byte(`\x`)) {
					*n++
				}
			}
			continue
		}
		times[name] = &write.Times{Type: d.Type}
		v.eachText[name] = times[name].Add
	}
	d, err := describe(p, c, "convert: types", v.table, v.files, v.fields, c.String("fields") == "", nil)
	if err != nil {
		return err
	}
	v.files, v.fields = d.files, d.fields
	numbersAlone := v.target.pairs() || v.codesTo != ""
	for i, name := range v.fields {
		seen := d.columns[i]
		col := write.Column{Name: name, Kind: seen.Faithful(), Many: seen.Most > 1 || seen.Lists > 0 || stored[name].List, Truth: seen.Truth()}
		switch {
		case numbersAlone:
			col.Kind = seen.Kind()
		case v.target.Format == "tfrecord" && seen.Wide.N > 0:
			col.Kind = value.Text // its numbers have 32 bits
		}
		if untyped {
			col.Kind, col.Truth = value.Text, false
		}
		if t := times[name]; t != nil && !numbersAlone && (col.Kind == value.Text || col.Kind == value.None) {
			if col.Time = t.In(v.target.Format); col.Time != (write.Time{}) {
				col.Kind = value.Int
			}
		}
		if v.config == nil && len(seen.Words) > 0 {
			col.Words = !numbersAlone && col.Kind != value.Int && col.Kind != value.Float64 && !col.Truth
		}
		v.columns = append(v.columns, col)
		from := origin{Declared: stored[name], lines: isLines(formatName(v.source)), decided: v.config != nil, escaped: escaped[name]}
		for _, c := range changesOf(v.target.Format, &col, seen, from) {
			c.Field = name
			v.changed = append(v.changed, c)
		}
	}
	return nil
}

// convertRecords writes the records.
func convertRecords(ctx context.Context, p *command.Program, maxBad int64, v conversion) (w record.Walked, bytes int64, err error) {
	out, err := v.target.Create(v.columns, v.source.Missing)
	if err != nil {
		return w, 0, err
	}
	w, err = v.files.Walk(ctx, v.fields, 1, func(lists []value.List) error {
		if v.codes != nil {
			if lists, err = v.codes.Replace(lists, v.source.Missing); err != nil {
				return err
			}
		}
		return out.Write(lists)
	}, p.Progress.Read("convert", v.files.Bytes()))
	if err == nil && w.Bad > maxBad {
		err = fmt.Errorf("%d records cannot be read, -max-bad is %d; the first: %w", w.Bad, maxBad, &w.Faults[0])
	}
	if err != nil {
		out.Abandon()
		return w, 0, err
	}
	if err := v.writeCodes(); err != nil {
		out.Abandon()
		return w, 0, err
	}
	err = out.Finish()
	return w, out.counted.n, err
}

// writeCodes writes the table of strings and their numbers.
func (v *conversion) writeCodes() error {
	if v.codes == nil {
		return nil
	}
	f, err := os.Create(v.codesTo)
	if err != nil {
		return err
	}
	_, err = v.codes.WriteTo(f)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(v.codesTo)
	}
	return err
}

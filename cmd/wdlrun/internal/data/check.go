package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train"
)

func checkCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "check",
		Usage:     "read every record and list those that cannot be used",
		UsageText: "wdlrun data check [-max-bad N] [flags] FILE…",
		Description: `Without -config a record is good if it can be split into its fields: checksums, lengths,
quotes and numbers of fields are right. The first strings in numeric columns are reported with
advice.

With -config a record is good if training would accept it: labels and numbers must also suit
the features. The command also reports fields without a value in any record, and fields that
may reveal the label: as the only feature they have an AUC above .99, they are missing for only
one value of the label, or the label is computed from them. Parquet, TFRecord and JSON files are
recognised, whatever data.format is.

Each fault is reported with file and line, for Parquet the row, for TFRecord the offset in the
decompressed bytes, for Kafka the offset of the record. Files that cannot be read to their ends,
such as truncated archives, are named, and the others checked. The exit code is 1 if more than -max-bad records are
bad, if a file cannot be read, if there is no good record, or if all labels of the training data are the same.

Examples:
   wdlrun data check clicks.csv
   wdlrun data check -config ctr.yaml -max-bad 100
   wdlrun data check -config ctr.yaml -set data.header=true monday.csv
   wdlrun data check --json 'day_*.tsv.gz'`,
		Flags: recordFlags(
			&cli.StringSliceFlag{Name: "set", Usage: "override a key of -config: `KEY=VALUE`, such as data.comment=#; may be repeated"},
			&cli.Int64Flag{Name: "max-bad", Usage: "accept up to `N` bad records", DefaultText: "data.max_bad of -config, else 0"},
			&cli.IntFlag{Name: "show", Value: 8, Usage: "show the first `N` bad records; with -config the first of each reason, at most 8"},
		),
		Action: p.Action(dataCheck),
	}
}

// checked is the output of data check --json.
type checked struct {
	Files   []string     `json:"files"`
	Empty   []string     `json:"empty,omitempty"` // files without records
	Format  string       `json:"format"`
	Records int64        `json:"records"` // that can be used
	Bad     int64        `json:"bad"`
	Ones    *int64       `json:"positives,omitempty"`    // with a configuration whose label is binary: records whose label is 1
	Labels  []labelValue `json:"label_values,omitempty"` // if all labels are 0, or all are 1: the most frequent values of the field
	Faults  []faultAt    `json:"faults"`                 // the first
	Broken  []broken     `json:"broken,omitempty"`       // files that cannot be read to their ends; all else is about the others
	Partial []string     `json:"partial,omitempty"`      // columns that some of the files do not have
	Notes   []string     `json:"notes,omitempty"`        // what is odd about the files, such as a text in a column of numbers
	Left    int64        `json:"excluded,omitempty"`     // with it: records that data.where leaves out
	Config  bool         `json:"config"`                 // checked as training would
	Absent  []string     `json:"absent,omitempty"`       // with it: fields that features need and of which no record has a value
	Leaks   []leak       `json:"leaks,omitempty"`        // with it: fields that may reveal the label
	Doubts  []string     `json:"doubts,omitempty"`       // with it: columns that features make little of
	OK      bool         `json:"ok"`
	Error   string       `json:"error,omitempty"`     // why it is not
	Code    int          `json:"exit_code,omitempty"` // if it is not

	untrainable string // why training fails on the good records; "" if it does not
}

type faultAt struct {
	File    string `json:"file"`
	Line    int64  `json:"line,omitempty"`
	Row     int64  `json:"row,omitempty"`
	Offset  *int64 `json:"offset,omitempty"` // where there is neither
	Reason  string `json:"reason"`
	Records int64  `json:"records"` // of this kind, of which this is the first
}

func dataCheck(p *command.Program, c *cli.Context) error {
	t, err := recordsAs(c, c.StringSlice("set"))
	if err != nil {
		return err
	}
	if c.Int("show") < 1 || c.Int64("max-bad") < 0 {
		return errors.New("data check: -show must be at least 1, -max-bad at least 0")
	}
	maxBad := c.Int64("max-bad")
	if !c.IsSet("max-bad") {
		maxBad = t.source.MaxBad
	}
	check := checkRecords
	if c.String("config") != "" {
		check = checkForTraining
	}
	r, faults, err := check(p, c, &t)
	if err != nil {
		broken := t.withoutBroken(c.Context, &p.Progress)
		if broken == nil {
			return err
		}
		if r, faults, err = check(p, c, &t); err != nil {
			return err
		}
		r.Broken = broken
	}
	r.Format, r.Empty, r.Partial, r.OK, r.Faults = formatName(t.source), t.empty, t.partial, r.Bad <= maxBad, []faultAt{}
	for i := range faults {
		f := &faults[i]
		at := faultAt{File: f.File, Line: f.Line, Row: f.Row, Reason: f.Reason(), Records: 1 + f.Same}
		if f.Line == 0 && f.Row == 0 {
			at.Offset = &f.Offset
		}
		r.Faults = append(r.Faults, at)
	}
	if !r.OK {
		r.Error = plural.Of(int(r.Bad), "record") + " cannot be used"
	}
	if r.untrainable != "" {
		r.OK, r.Error = false, "training would fail: "+r.untrainable
	}
	if len(r.Broken) > 0 {
		r.OK, r.Error = false, fmt.Sprintf("%s of %d cannot be read: write or copy them again, or move them away", plural.Of(len(r.Broken), "file"), len(r.Broken)+len(r.Files))
	}
	if !r.OK {
		r.Code = 1
	}
	if command.AsJSON(c) {
		err = p.PrintJSON(r)
	} else {
		printChecked(p, r, faults, t)
		warnUnread(p, t)
		for _, note := range r.Notes {
			fmt.Fprintln(p.Stdout, note)
		}
		if r.Bad > 0 && t.hint() != "" {
			fmt.Fprintln(p.Stdout, t.hint())
		}
		if path := command.PathOf(c, "config"); path != "" && !t.other && r.OK && !c.IsSet("max-bad") && !c.IsSet("set") {
			fmt.Fprintf(p.Stdout, "next: %s -np 2 train -config %s\n", command.Called(os.Args[0]), command.QuotedPath(path))
		}
	}
	if err == nil && !r.OK {
		return command.Exit(1)
	}
	return err
}

// checkRecords splits every record into its fields.
func checkRecords(p *command.Program, c *cli.Context, t *table) (r checked, _ []record.Fault, err error) {
	f, err := t.open()
	if err != nil {
		return r, nil, err
	}
	w, err := f.Check(c.Context, runtime.GOMAXPROCS(0), c.Int("show"), t.numbers, p.Progress.Read("check", f.Bytes()))
	r = checked{Files: f.Names(), Records: w.Records, Bad: w.Bad, Notes: t.notes}
	for i := range w.Strays {
		r.Notes = append(r.Notes, w.Strays[i].Place()+": "+w.Strays[i].Reason())
	}
	return r, w.Faults, err
}

// checkForTraining runs the checks of a training before its first step.
func checkForTraining(p *command.Program, c *cli.Context, t *table) (r checked, _ []record.Fault, err error) {
	full := t.config.Clone()
	full.Fill()
	if err := train.CheckVectors(full); err != nil {
		return r, nil, err
	}
	src := t.source
	src.MaxBad = math.MaxInt64
	s := schema.Schema{Label: full.Label, Labels: full.Labels, Features: full.Features, Crosses: full.Crosses}
	d, err := data.OpenEval(src, s, t.patterns)
	if err != nil {
		return r, nil, t.unlike(err)
	}
	t.empty, t.partial = data.Empty(d), data.Partial(d)
	fitted := s
	if full.Data.Index != "" { // whose statistics training takes
		fitted.Features = nil
	}
	fit := encode.NewFit(fitted)
	n, err := scanAll(c.Context, d, fit, p.Progress.Read("check", d.Bytes()))
	if err != nil {
		return r, nil, err
	}
	absent := d.AbsentIn(n)
	if len(absent) > 0 {
		fmt.Fprintf(p.Stderr, "wdlrun: no record has a value of these fields, which features need: %s; an evaluation treats them as missing\n", quotedFew(absent))
	}
	leaks := d.LeaksIn(n)
	if line := data.Leaking(leaks); line != "" {
		fmt.Fprintln(p.Stderr, "wdlrun: "+line)
	}
	e, err := encode.NewEncoder(fit)
	doubts := fit.Warnings(e)
	if err != nil && full.Data.Index == "" {
		doubts = append(doubts, err.Error())
	}
	for _, line := range doubts {
		fmt.Fprintf(p.Stderr, "wdlrun: %s\n", line)
	}
	bad, faults := n.Bad()
	r = checked{Files: d.Names(), Records: n.Records(), Bad: bad, Left: n.Excluded(), Config: true, Absent: absent, Leaks: leaksOf(leaks), Doubts: doubts}
	if !full.Label.IsNumber() {
		ones := n.Positives()
		if r.Ones = &ones; ones == 0 || ones == r.Records {
			if r.Labels, err = t.labelValues(c.Context, &p.Progress); err != nil {
				return r, nil, err
			}
		}
	}
	r.untrainable = t.untrainable(d, n)
	return r, faults[:min(len(faults), c.Int("show"))], nil
}

// leak is one field of them.
type leak struct {
	Field   string  `json:"field"`
	AUC     float64 `json:"auc"`               // of the field alone
	Absence bool    `json:"absence,omitempty"` // it is missing in all records of one class and in none of the other
	Shares  string  `json:"shares,omitempty"`  // the field from which both it and the label are computed
}

func leaksOf(all []data.Leak) (leaks []leak) {
	for _, l := range all {
		leaks = append(leaks, leak{l.Field, l.AUC, l.Absence, l.Shares})
	}
	return leaks
}

// quotedFew lists names, at most the first eight.
func quotedFew(names []string) string {
	const few = 8
	more := len(names) - few
	quoted := make([]string, min(len(names), few))
	for i := range quoted {
		quoted[i] = strconv.Quote(names[i])
	}
	if more > 0 {
		quoted = append(quoted, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(quoted, ", ")
}

// scanAll scans a dataset on all cores, for its counts and its statistics.
func scanAll(ctx context.Context, d *data.Dataset, fit *encode.Fit, progress func(int64)) (*data.Counts, error) {
	parts := make([]*data.Counts, runtime.GOMAXPROCS(0))
	errs, fits := make([]error, len(parts)), make([]*encode.Fit, len(parts))
	done := make([]atomic.Int64, len(parts))
	var group sync.WaitGroup
	for i := range parts {
		report := func(bytes int64) { done[i].Store(bytes) }
		if i == 0 {
			report = func(bytes int64) {
				done[0].Store(bytes)
				sum := int64(0)
				for j := range done {
					sum += done[j].Load()
				}
				progress(sum)
			}
		}
		fits[i] = fit.Empty()
		group.Go(func() { parts[i], errs[i] = d.Scan(ctx, i, len(parts), fits[i], report) })
	}
	group.Wait()
	all := new(data.Counts)
	for i, c := range parts {
		if errs[i] != nil {
			return nil, errs[i]
		}
		if err := all.Merge(c.Marshal()); err != nil {
			return nil, err
		}
		if err := fit.Merge(fits[i].Marshal()); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// maxMislabelled is the share of records with the same unusable label above which the
// configuration is probably wrong, not the records.
const maxMislabelled = 0.01

// isMissing reports whether a value means that there is none.
func (t *table) isMissing(value string) bool {
	return value == "" || slices.Contains(t.source.Missing, value)
}

func printChecked(p *command.Program, r checked, faults []record.Fault, t table) {
	for _, b := range r.Broken {
		fmt.Fprintln(p.Stdout, b.Reason)
	}
	more, labels := r.Bad, false
	for i := range faults {
		n := 1 + faults[i].Same
		fmt.Fprintln(p.Stdout, &faults[i])
		more -= n
		labels = labels || r.Config && n > 1 && faults[i].Column == t.label.Field && !t.isMissing(faults[i].Value) && float64(n) > maxMislabelled*float64(r.Records+r.Bad)
	}
	if more > 0 {
		fmt.Fprintf(p.Stdout, "… and %d more\n", more)
	}
	fmt.Fprintf(p.Stdout, "%d records in %s, %s: %d good, %d bad\n", r.Records+r.Bad, plural.Of(len(r.Files), "file"), r.Format, r.Records, r.Bad)
	if r.Left > 0 {
		fmt.Fprintf(p.Stdout, "data.where leaves out %d others\n", r.Left)
	}
	r.printLabel(p.Stdout, t.label.Field)
	if r.untrainable != "" || len(r.Broken) > 0 {
		fmt.Fprintln(p.Stdout, r.Error)
	}
	switch {
	case labels && r.untrainable == "":
		fmt.Fprintln(p.Stdout, "too many records have a label that cannot be used: change label in the configuration so that it suits the values")
	case r.Bad > 0 && r.untrainable == "":
		fmt.Fprintf(p.Stdout, "to leave out the bad ones: train -max-bad %d, or eval -max-bad %[1]d\n", r.Bad)
	case r.Bad == 0 && !r.Config && len(r.Broken) == 0:
		fmt.Fprintln(p.Stdout, "the records can be read; data check -config FILE also checks labels and numbers")
	}
}

// printLabel prints the share of ones, and the values if all labels are the same.
func (r *checked) printLabel(w io.Writer, field string) {
	if r.Ones != nil && r.Records > 0 {
		fmt.Fprintf(w, "the label is 1 in %d of the good ones, %.3g %%\n", *r.Ones, 100*float64(*r.Ones)/float64(r.Records))
	}
	if len(r.Labels) == 0 {
		return
	}
	var all []string
	hint := ""
	for _, v := range r.Labels {
		if v.Value == "" {
			hint = fmt.Sprintf(`; if a missing value means 0, add data.derive: {label: "if(missing(%s), 0, 1)"} and label.field: label`, field)
		}
		all = append(all, strconv.Quote(v.Value)+" in "+plural.Of(int(v.Records), "record"))
	}
	fmt.Fprintf(w, "the most frequent values of field %s: %s; see label.positive, label.negative and label.threshold%s\n", field, strings.Join(all, ", "), hint)
}

package data

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/data/pairs"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/signal"
	"github.com/wdlrun/wdlrun/internal/data/stats"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train/input"
)

func statsCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "stats",
		Usage:     "print type, distinct and missing values, range and mean of each field",
		UsageText: "wdlrun data stats [flags] FILE…",
		Description: `Reads every record once. The number of distinct values is exact up to 1,024 and an estimate
above, within about 2 %; an estimate is marked with ~. The label is taken from -config, otherwise
a column that looks like one. AUC and bits measure how well a single column predicts the label:
the AUC of a model with no other feature, and a lower bound of the mutual information: what is gained
on records to which the model was not fitted. They are measured on up to 32,768 records of each class. With -index, or with an index in the configuration, the values
of each field that are not in the index are counted.

Pairs of fields that say more about the label than their parts are candidates for crosses. The
parts are a logistic regression on all fields. Gains are measured on records that did not fit
them, of the same sample; at most 12 are printed, and only those beyond chance. init uses older
records only to predict newer ones, stats does not.

Keys of the JSON line (-json):
   files, format            files that were read, and their format
   records, bad             number of records; number of those that cannot be read
   label, label_rate        label field; share of ones
   label_guessed            whether the label is a guess; then also
   label_ones, label_from   its values that mean 1, or the least number that means 1
   columns                  name, type, list, missing (share of the records), distinct,
                            distinct_estimated; min, mean, max and sum if all are finite numbers;
                            auc and information (bits) if both classes have enough records; leak
                            (an AUC above .99, or missing for only one class); unknown (values
                            that are not in the index)
   pairs                    of (two fields), gain (log-loss per record), combinations, leak (alone it
                            predicts nearly every label); also pairs_tried, parts_log_loss

Examples:
   wdlrun data stats clicks.csv
   wdlrun data stats -config ctr.yaml --json
   wdlrun data stats -index runs/20261121-101500 monday.csv`,
		Flags:  recordFlags(&cli.StringFlag{Name: "index", Usage: "feature index: a `FILE` written by data index, a run directory or a checkpoint"}),
		Action: p.Action(dataStats),
	}
}

// columnStats is one column of data stats --json.
type columnStats struct {
	Name     string   `json:"name"`
	Type     string   `json:"type"`
	List     bool     `json:"list,omitempty"`
	Missing  float64  `json:"missing"` // share of the records
	Distinct int64    `json:"distinct"`
	About    bool     `json:"distinct_estimated,omitempty"`
	Min      *float64 `json:"min,omitempty"`
	Mean     *float64 `json:"mean,omitempty"`
	Max      *float64 `json:"max,omitempty"`
	Sum      *float64 `json:"sum,omitempty"`
	AUC      *float64 `json:"auc,omitempty"` // of the column alone
	Bits     *float64 `json:"information,omitempty"`
	Leak     bool     `json:"leak,omitempty"`    // it may reveal the label
	Unknown  *int64   `json:"unknown,omitempty"` // values that no vocabulary of the index holds
}

// tableStats is the output of data stats --json.
type tableStats struct {
	Files     []string      `json:"files"`
	Format    string        `json:"format"`
	Records   int64         `json:"records"`
	Bad       int64         `json:"bad"`
	Label     string        `json:"label,omitempty"`
	LabelRate *float64      `json:"label_rate,omitempty"`
	Guessed   bool          `json:"label_guessed,omitempty"` // which field it is, and which of its values mean 1
	Ones      []string      `json:"label_ones,omitempty"`    // those values, where they are guessed
	From      *float64      `json:"label_from,omitempty"`    // or the number from which on they are
	Columns   []columnStats `json:"columns"`
	Pairs     []pairStats   `json:"pairs,omitempty"` // that say more about the label than their parts
	Tried     int           `json:"pairs_tried,omitempty"`
	Loss      float64       `json:"parts_log_loss,omitempty"`
}

// pairStats is one pair of fields.
type pairStats struct {
	Of           [2]string `json:"of"`
	Gain         float64   `json:"gain,omitempty"` // in log-loss per row
	Combinations int       `json:"combinations"`
	Leak         bool      `json:"leak,omitempty"` // it may reveal the label
}

// indexOf returns the vocabularies of the requested index, by field; nil for none.
func indexOf(c *cli.Context, t table) (map[string]*encode.Vocabulary, error) {
	path := command.PathOf(c, "index")
	if path == "" && t.config != nil {
		path = t.config.Data.Index
	}
	if path == "" {
		return nil, nil
	}
	e, err := input.LoadIndex(path)
	if err != nil {
		return nil, err
	}
	byField := map[string]*encode.Vocabulary{}
	for _, v := range e.Vocabularies() {
		byField[v.Field] = v
	}
	return byField, nil
}

// described is the result of a pass over the records.
type described struct {
	files   *record.Files
	fields  []string // those requested, then late ones
	columns []*stats.Column
	ones    int64           // labels that are 1
	signals []signal.Signal // of the first columns, if the label is known
	pairs   pairs.Found     // of the first columns, if the label is known
	walked  record.Walked
}

// measured is the number of records of each class kept to measure signals.
const measured = 1 << 15

// sampler keeps records of each class.
type sampler struct {
	*signal.Sample
	words   []uint64
	records uint64
}

// add offers a record that has been added to the columns.
func (s *sampler) add(columns []*stats.Column, one bool) {
	const odd = 0x9E3779B97F4A7C15 // scatters the record numbers
	s.records++
	if key := s.records * odd; s.Wants(key, one) {
		s.words = s.words[:0]
		for _, c := range columns {
			s.words = append(s.words, c.Word())
		}
		s.Add(key, one, s.words)
	}
}

// describe computes the statistics of these fields. If all are requested, it includes
// fields that no first record has.
func describe(p *command.Program, c *cli.Context, what string, t table, f *record.Files, fields []string, all bool, index map[string]*encode.Vocabulary) (d described, err error) {
	d = described{files: f, fields: fields}
	pass := func(names []string) (w record.Walked, late []string, err error) {
		columns, known := make([]*stats.Column, len(names)), make([]*encode.Vocabulary, len(names))
		for i := range columns {
			columns[i], known[i] = stats.New(t.source.Missing), index[names[i]]
			columns[i].Text = t.eachText[names[i]]
		}
		d.columns = append(d.columns, columns...)
		label := slices.Index(names, t.label.Field)
		sample := &sampler{Sample: signal.New(len(names), measured)}
		w, late, err = d.files.Survey(c.Context, names, 1, func(lists []value.List) error {
			for i := range lists {
				columns[i].Add(&lists[i])
				if known[i] != nil {
					known[i].Count(&lists[i], t.source.Missing)
				}
			}
			if label < 0 {
				return nil
			}
			one := isOne(&lists[label], t.label)
			if one {
				d.ones++
			}
			sample.add(columns, one)
			return nil
		}, p.Progress.Read(what, f.Bytes()))
		for i, c := range columns {
			s := sample.Of(i, c.Kind() != value.Text)
			if s.Known = s.Known && i != label; label >= 0 {
				d.signals = append(d.signals, s)
			}
		}
		if err == nil && label >= 0 {
			d.pairs = pairsOf(d.columns, d.signals, names, label, sample.Sample)
		}
		return w, late, err
	}
	var late []string
	if d.walked, late, err = pass(fields); err != nil || !all || len(late) == 0 {
		return d, err
	}
	d.files, d.fields = f.With(late), slices.Concat(fields, late)
	_, _, err = pass(late)
	return d, err
}

// pairsOf finds pairs of columns that say more about the label than their parts. Columns of
// numbers, unless they are few or named like identifiers, and of lists are only parts.
func pairsOf(columns []*stats.Column, signals []signal.Signal, names []string, label int, sample *signal.Sample) pairs.Found {
	const few = 20 // distinct numbers
	var t pairs.Table
	words, ones := sample.Columns()
	t.Ones = ones
	for i, c := range columns {
		n, _ := c.Distinct()
		of := pairs.Column{Codes: make([]int32, len(ones)), Size: 1}
		switch {
		case i == label || signals[i].Leaks():
		case c.Kind() == value.Text, c.Kind() == value.Int && (n <= few || inspect.IsIDName(names[i])):
			of = pairs.Values(words[i])
			of.Part = c.Most > 1
		case c.Most <= 1:
			of = pairs.Ranges(words[i])
			of.Part = true
		}
		t.Columns = append(t.Columns, of)
	}
	return pairs.Search(&t)
}

// isOne reports whether the value of a field means label 1.
func isOne(l *value.List, rule schema.Label) bool {
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

func dataStats(p *command.Program, c *cli.Context) error {
	t, err := records(c)
	if err != nil {
		return err
	}
	f, err := t.open()
	if err != nil {
		return err
	}
	warnUnread(p, t)
	for _, note := range t.notes { // such as values that count as missing
		fmt.Fprintf(p.Stderr, "wdlrun: %s\n", note)
	}
	if t.config == nil {
		t.label = t.guess
	}
	index, err := indexOf(c, t)
	if err != nil {
		return err
	}
	d, err := describe(p, c, "stats", t, f, f.Fields(), true, index)
	if err != nil {
		return err
	}
	if err := warnBad(p, d.walked, t.patterns); err != nil {
		return err
	}
	s := tableStats{Files: f.Names(), Format: formatName(t.source), Records: d.walked.Records, Bad: d.walked.Bad}
	if slices.Contains(d.fields, t.label.Field) && s.Records > 0 {
		rate := float64(d.ones) / float64(s.Records)
		s.Label, s.LabelRate = t.label.Field, &rate
		if t.config == nil {
			s.Guessed, s.Ones, s.From = true, t.label.Positive, t.label.Threshold
		}
	}
	for i, name := range d.fields {
		s.Columns = append(s.Columns, columnOf(name, d.columns[i]))
		if i < len(d.signals) && d.signals[i].Known {
			g := &d.signals[i]
			s.Columns[i].AUC, s.Columns[i].Bits, s.Columns[i].Leak = &g.AUC, &g.Bits, g.Leaks()
		}
		if v := index[name]; v != nil {
			s.Columns[i].Unknown = &v.Unknown
		}
	}
	s.Tried, s.Loss = d.pairs.Tried, d.pairs.Loss
	for i, x := range slices.Concat(d.pairs.Pairs, d.pairs.Leaks) {
		s.Pairs = append(s.Pairs, pairStats{[2]string{d.fields[x.A], d.fields[x.B]}, x.Gain, x.Combinations, i >= len(d.pairs.Pairs)})
	}
	if command.AsJSON(c) {
		return p.PrintJSON(s)
	}
	return printStats(p, s)
}

func columnOf(name string, c *stats.Column) columnStats {
	s := columnStats{Name: name, Type: typeName(c.Kind()), List: c.Most > 1 || c.Lists > 0}
	if c.Kind() == value.Text && c.IsNumeric() {
		s.Type = "number" // also with NaN and infinities
	}
	n, exact := c.Distinct()
	s.Distinct, s.About = n, !exact
	if c.Records > 0 {
		s.Missing = float64(c.Missing) / float64(c.Records)
	}
	if c.Numbers() > 0 && c.Texts() == 0 {
		mean, sum := c.Mean(), c.Sum()
		if !math.IsNaN(sum) && !math.IsInf(sum, 0) { // not finite if another value was not
			s.Min, s.Mean, s.Max, s.Sum = &c.Min, &mean, &c.Max, &sum
		}
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

func printStats(p *command.Program, s tableStats) error {
	fmt.Fprintf(p.Stdout, "%d records in %s, %s\n", s.Records, plural.Of(len(s.Files), "file"), s.Format)
	if s.LabelRate != nil {
		if s.Guessed {
			ones := strings.Join(s.Ones, " or ")
			if s.From != nil {
				ones = "at least " + short(*s.From)
			}
			fmt.Fprintf(p.Stdout, "the label is probably %s, and 1 if that is %s: %.2f %% of them; -config FILE sets the label\n", s.Label, ones, 100**s.LabelRate)
		} else {
			fmt.Fprintf(p.Stdout, "the label, %s, is 1 in %.2f %% of them\n", s.Label, 100**s.LabelRate)
		}
	}
	head := []string{"field", "type", "missing", "distinct", "min", "mean", "max", "AUC", "bits", "unknown"}
	has := func(is func(c columnStats) bool) bool { return slices.ContainsFunc(s.Columns, is) }
	if !has(func(c columnStats) bool { return c.Unknown != nil }) {
		head = head[:9]
		if !has(func(c columnStats) bool { return c.AUC != nil }) {
			head = head[:7]
		}
	}
	rows := [][]string{head}
	for _, c := range s.Columns {
		rows = append(rows, rowOf(c)[:len(head)])
	}
	_, err := fmt.Fprint(p.Stdout, command.Aligned(rows), pairsText(s))
	return err
}

// pairsText describes the pairs of fields; "" if none says more than its parts.
func pairsText(s tableStats) string {
	if len(s.Pairs) == 0 {
		return ""
	}
	text := fmt.Sprintf("pairs that say more than their parts, of %d (the log-loss of the parts alone is %.4g):\n", s.Tried, s.Loss)
	rows := [][]string{{"fields", "combinations", "log-loss"}}
	for _, x := range s.Pairs {
		gain := fmt.Sprintf("−%.2g", x.Gain)
		if x.Leak {
			gain = "(leak?)"
		}
		rows = append(rows, []string{x.Of[0] + " × " + x.Of[1], fmt.Sprint(x.Combinations), gain})
	}
	return text + command.Aligned(rows)
}

// rowOf returns the cells of a column.
func rowOf(c columnStats) []string {
	row := []string{c.Name, c.Type, fmt.Sprintf("%.2f %%", 100*c.Missing), fmt.Sprint(c.Distinct), "", "", "", "", "", ""}
	if c.List {
		row[1] += " list"
	}
	if c.About {
		row[3] = "~" + row[3]
	}
	if c.Mean != nil {
		row[4], row[5], row[6] = short(*c.Min), short(*c.Mean), short(*c.Max)
	}
	if c.AUC != nil {
		row[7], row[8] = fmt.Sprintf("%.4f", *c.AUC), fmt.Sprintf("%.4f", *c.Bits)
		if c.Leak {
			row[7] += " (leak?)"
		}
	}
	if c.Unknown != nil {
		row[9] = fmt.Sprint(*c.Unknown)
	}
	return row
}

// short formats a number with at most five digits.
func short(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e12 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', 5, 64)
}

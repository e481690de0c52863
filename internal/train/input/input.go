package input

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/shared"
	"github.com/wdlrun/wdlrun/internal/train/volumes"
)

// Use is the purpose of the data. The zero value is a training.
type Use struct {
	Judges     bool   // the model before a training is evaluated on the data of that training, as it is
	Evaluates  bool   // the training data is replaced by the records to evaluate
	Predicts   bool   // an evaluation without metrics
	Unlabelled bool   // labels are not read
	Group      string // field by which an evaluation groups samples; "": none
}

// Schema returns the schema of a configuration for this use.
func (u Use) Schema(c *config.Config) schema.Schema {
	s := SchemaOf(c)
	if u.Unlabelled {
		s = s.Unlabelled()
	}
	return s
}

// SchemaOf returns the schema of a configuration.
func SchemaOf(c *config.Config) schema.Schema {
	return schema.Schema{Label: c.Label, Labels: c.Labels, Features: c.Features, Crosses: c.Crosses}
}

// Setup configures an Input. Open needs only Config and Use.
type Setup struct {
	shared.Rank
	Config  *config.Config
	Use     Use
	Shown   *report.Status
	Hosts   []string         // host of each rank; nil: unknown
	Volumes *volumes.Volumes // reads files of other hosts; nil: all ranks are on one host
	ByLabel bool             // random validation rows are the same share of each class
	InTime  bool             // the records are in the order of data.valid_time, although none is held out
	Counted bool             // the model that a training begins with was trained on the training data
	Lacks   []string         // columns that no file need have
	Part    bool             // open some of the files, if there are many
	Keep    bool             // keep Counts, for ranks that restart without state
}

// Input is the data of a job on one rank. All ranks of a group make the same calls.
type Input struct {
	Setup
	Train       *data.Dataset // nil: between the spans of a stream
	Valid, Test *data.Dataset // nil: none
	ValidRows   data.Select   // rows of Valid to use
	Shares      []Share       // files of Train by host, with data.hosts: each on several hosts

	From  *encode.Encoder          // of the model that a new training begins with; nil: none
	Was   func(name string) string // name of a feature in that model; "": it has none
	Renew bool                     // take no statistics but vocabularies from From
	Same  map[string]encode.Grown  // features and crosses that keep the keys and numbers of From

	Encoder *encode.Encoder
	Encoded []byte   // the Encoder as stored in checkpoints
	Counts  [][]byte // encoded counts of the datasets, if Keep is set

	// Undated describes the fields that have values that should be dates and are none, which count as
	// missing, of the datasets that this job has scanned.
	Undated map[*data.Dataset][]encode.Dates
	spans   []encode.Dates // the same, of the spans of a stream

	unknown []int64       // values of training data outside the vocabulary, by sparse feature
	feed    *data.Reader  // reader of the training rows; nil: none, or readers of slots or microbatches are used
	pace    data.Pace     // counters of the readers that have ended
	giveUp  func()        // ends the waiting for the broker of a span; nil: no span
	waited  *atomic.Int64 // time in ns that Sources waited for their readers
	early   map[*data.Dataset]early
}

// maxShare bounds the bytes that one rank sends after a scan: statistics and vocabularies.
const maxShare = 1 << 30

// holdOut selects the validation rows of the training data.
func holdOut(in *Input) error {
	d, s, seed := in.Train, &in.Config.Data, in.Config.Train.Seed
	switch {
	case s.ValidTime != "":
		return d.HoldOutNewest(s.ValidTime, s.ValidFraction)
	case s.ValidGroup != "":
		return d.HoldOutGroups(s.ValidGroup, s.ValidFraction, seed)
	case in.ByLabel:
		return data.HoldOutByLabel(d, s.ValidFraction, seed)
	}
	return d.HoldOut(s.ValidFraction, seed)
}

// keepNegatives removes negative samples from training data, by data.negative_rate.
func keepNegatives(d *data.Dataset, c *config.Config) error {
	if c.Data.NegativeRate == 0 {
		return nil
	}
	return d.KeepNegatives(c.Data.NegativeRate, c.Train.Seed)
}

// datasets returns the distinct datasets, the training data first.
func (in *Input) datasets() (all []*data.Dataset) {
	for _, d := range []*data.Dataset{in.Train, in.Valid, in.Test} {
		if d != nil && !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	return all
}

// Restore sets the counts of the datasets and the encoder, which another rank has sent.
func (in *Input) Restore(counts [][]byte, encoded []byte) (err error) {
	sets := in.datasets()
	if len(sets) != len(counts) {
		return fmt.Errorf("the counts of %d datasets, here are %d", len(counts), len(sets))
	}
	for i, d := range sets {
		var c data.Counts
		if err := c.Merge(counts[i]); err != nil {
			return err
		}
		if err := d.Use(&c); err != nil {
			return err
		}
	}
	in.Counts, in.Encoded = counts, encoded
	in.Encoder, err = encode.LoadEncoder(encoded)
	return err
}

// Over returns the data of in for the new group of x.
func (in *Input) Over(x Setup) *Input {
	next := *in
	next.Setup, next.feed = x, nil
	return &next
}

// HasValid reports whether there are validation rows.
func (in *Input) HasValid() bool { return in.Valid != nil && in.Valid.Rows(in.ValidRows) > 0 }

// fewPositives is the number of validation rows of the rarer class below which a training warns: with
// 50, the standard error of an AUC is up to 0.04 (Hanley and McNeil 1982).
const fewPositives = 50

// FewPositives returns a warning if the validation rows have few of a class, "" otherwise.
func FewPositives(in *Input) string {
	if !in.HasValid() || in.Config.Label.IsNumber() {
		return ""
	}
	rows, ones := in.Valid.Rows(in.ValidRows), in.Valid.Positives()
	advice := "name more files in data.valid"
	if in.ValidRows == data.Valid {
		ones -= in.Valid.TrainPositives()
		advice = fmt.Sprintf("raise data.valid_fraction, now %v, or name files in data.valid", in.Config.Data.ValidFraction)
	}
	label := 1
	if 2*ones > rows {
		label, ones = 0, rows-ones
	}
	if ones >= fewPositives {
		return ""
	}
	return fmt.Sprintf("%d of %d validation rows have the label %d, fewer than %d: validation metrics, and early stopping by them, depend on chance: %s; or set train.epochs, and compare several seeds (wdlrun sweep -repeats 3)", ones, rows, label, fewPositives, advice)
}

// Bad returns the number of faulty records left out, over all data.
func (in *Input) Bad() (n int64) {
	for _, d := range in.datasets() {
		bad, _ := d.Bad()
		n += bad
	}
	return n
}

// early is the result of a rank's scan of its part of a dataset.
type early struct {
	counts *data.Counts
	err    error
}

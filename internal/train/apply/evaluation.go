// Package apply applies a trained model to other data: it evaluates the model, or writes its
// predictions. Every rank of a group makes the same calls.
package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/text/pattern"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/trace"
)

// EvalOptions are the options of an evaluation. Only rank 0's are used.
type EvalOptions struct {
	Resume     string   // run directory or checkpoint to evaluate
	Read       bool     // CheckEval has verified the checkpoint that Resume names
	Data       []string // files, in the training's format or one that names its fields; none: data.test of the configuration
	Group      string   // field to compute an AUC by group for; "" for none
	Report     bool     // compute Quality
	Importance bool     // compute Importance
	By         []string // fields whose values the report breaks the metrics down by
	Set        []string // settings of data and label that override the training's, "data.comment=|"
	train.Peers
	Warn func(line string)
	Say  func(line string) // prints a line of progress; nil: silent

	// Each, if not nil, is called on every rank with each batch and the logits of its first
	// label. Both are valid until it returns.
	Each func(b *encode.Batch, logit []float32) error

	predicts   bool // logits are written; there are no metrics
	unlabelled bool // records need no labels; with predicts
}

// EvalResult is the result of an evaluation and the JSON line of `wdlrun eval --json`.
type EvalResult struct {
	WorldSize int `json:"world_size"`
	train.Model
	Data    []string `json:"data"`
	Seconds float64  `json:"seconds"`
	metrics.Metrics
	Groups     *metrics.GroupMetrics      `json:"groups,omitempty"`
	Quality    *metrics.Quality           `json:"quality,omitempty"`
	Importance []Importance               `json:"importance,omitempty"`
	Unknown    map[string]int64           `json:"unknown,omitempty"`     // by feature: values that training has not seen
	Why        map[string]metrics.Unknown `json:"unknown_why,omitempty"` // the same by reason
	Undated    []encode.Dates             `json:"undated,omitempty"`     // fields with values that should be dates and are none
	Outside    []report.Outside           `json:"outside_range,omitempty"`
	Warnings   []string                   `json:"warnings,omitempty"` // of rank 0, which prints them
}

// Evaluation is an evaluation on one rank of a group.
type Evaluation struct {
	*train.Loader
	eval   EvalOptions
	began  time.Time
	warned *[]string
}

// NewEvaluation prepares an evaluation on a group.
func NewEvaluation(comm *collective.Comm, rec *trace.Recorder, opt EvalOptions) Evaluation {
	warned := new([]string)
	if warn := opt.Warn; warn != nil {
		opt.Warn = func(line string) {
			*warned = append(*warned, line)
			warn(line)
		}
	}
	o := train.Options{Resume: opt.Resume, Read: opt.Read, Peers: opt.Peers, Warn: opt.Warn, Say: opt.Say}
	return Evaluation{train.NewLoader(comm, rec, o, opt.use()), opt, time.Now(), warned}
}

// name returns the name of the command.
func (o *EvalOptions) name() string {
	if o.predicts {
		return "predict"
	}
	return "eval"
}

// use returns how the data is used.
func (o *EvalOptions) use() input.Use {
	return input.Use{Evaluates: true, Predicts: o.predicts, Unlabelled: o.unlabelled, Group: o.Group}
}

// evaluating changes the configuration of a training so that the data to evaluate is read in
// place of the training data.
func (o *EvalOptions) evaluating(c *config.Config) error {
	if err := o.readOtherwise(c); err != nil {
		return err
	}
	if o.Group != "" && c.Label.IsNumber() {
		return errors.New("eval: -group: an AUC by group needs a label of two classes; the model predicts a number")
	}
	if o.Report && c.Label.IsNumber() {
		return errors.New("eval: -report: its curves need a label of two classes; the model predicts a number")
	}
	if o.predicts {
		c.Data.Where = "" // each record has its line in the output
	}
	files := o.Data
	if len(files) == 0 {
		files = c.Data.Test
	}
	if len(files) == 0 {
		return errors.New("the configuration names no test data: give files with -data FILE")
	}
	var err error
	if c.Data, err = inspect.For(c.Data, o.Data); err != nil {
		return err
	}
	c.Data.Train, c.Data.Test, c.Data.Valid, c.Data.Follow = files, nil, nil, schema.Follow{}
	c.Data.ValidFraction, c.Data.ValidTime, c.Data.ValidGroup = 0, "", ""
	c.Train.WithoutValidation()
	c.Train.Precision, c.Train.Device = "fp32", "cpu" // weights are stored in fp32; any machine has a CPU
	c.Fill()
	return nil
}

// readOtherwise applies the settings that describe the format of the files and which of their
// labels are 1.
func (o *EvalOptions) readOtherwise(c *config.Config) error {
	for _, s := range o.Set {
		key, _, _ := strings.Cut(s, "=")
		if key = strings.TrimSpace(key); !readSetting().MatchString(key) {
			return fmt.Errorf("%s: -set %s: it takes no other setting than where its records are and how they are written (data.hosts, data.format, …), which of their labels are 1 (label.positive, …), and data.max_bad", o.name(), key)
		}
	}
	set := config.SetAll
	if o.unlabelled {
		set = config.SetUnlabelled
	}
	removed, err := set(c, o.Set)
	for _, line := range removed {
		if o.Warn != nil {
			o.Warn("-set " + line)
		}
	}
	return err
}

// readSetting matches the keys that an evaluation may set differently from the training.
var readSetting = pattern.Lazy(`^(data\.(test|hosts|format|delimiter|header|fields|comment|missing|max_bad|registry)|label\.(field|positive|negative|threshold))\b`)

// CheckEval finds the faults of an evaluation that one process can find before any rank
// starts.
func CheckEval(ctx context.Context, o EvalOptions) error {
	_, err := o.check(ctx)
	if errors.Is(err, train.ErrElsewhere) {
		return nil
	}
	return err
}

// check is CheckEval and returns the input of the evaluation.
func (o *EvalOptions) check(ctx context.Context) (*input.Input, error) {
	if o.Resume == "" {
		return nil, fmt.Errorf("%s: -resume DIR is required: the run directory or checkpoint of the model", o.name())
	}
	c, err := train.OpenConfig(ctx, train.Options{Resume: o.Resume, Peers: o.Peers})
	if err == nil {
		err = o.evaluating(c)
	}
	if err == nil && c.Data.EachHost() && o.Away {
		err = train.ErrElsewhere
	}
	if err != nil {
		return nil, err
	}
	return input.Open(input.Setup{Config: c, Use: o.use()})
}

// Importance measures how much worse a model becomes without the information of a field: each
// sample gets the values of the field from another sample, drawn at random. All inputs
// computed from the field change together, including crosses. Changes are means of five
// draws.
type Importance struct {
	Field            string   `json:"field"`
	Features         []string `json:"features"`
	Coverage         float64  `json:"coverage"` // share of samples with a value
	AUC              *float64 `json:"auc_loss"` // AUC minus the AUC without the field; null if samples are of one class
	AUCDeviation     *float64 `json:"auc_loss_deviation"`
	LogLoss          float64  `json:"logloss_gain"` // log-loss without the field minus log-loss
	LogLossDeviation float64  `json:"logloss_gain_deviation"`
}

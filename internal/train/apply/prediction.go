package apply

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/data/value"
	"github.com/wdlrun/wdlrun/internal/data/write"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/trace"
)

// PredictOptions are the options of a prediction.
type PredictOptions struct {
	Eval    EvalOptions // Data must name files; Group is ignored
	Model   string      // directory of an exported model, instead of Eval.Resume
	Label   bool        // read and write the labels; otherwise records need no labels
	Logit   bool        // write the logits
	Columns []string    // fields of the records to copy to the output
	Keys    bool        // write the inputs of an exported ONNX model that ONNX cannot compute

	// Open opens the output. It is called on rank 0 only.
	Open func(columns []write.Column) (PredictOutput, error)
	Text bool // the output has a text format: all values are passed as text

	lists map[string]bool // with Keys: fields of which a record has several values; on rank 0
}

// PredictOutput is the destination of predictions.
type PredictOutput interface {
	Write(lists []value.List) error // one record
	Finish() error                  // makes the output visible
	Abandon()                       // removes what was written; called after an error
}

// PredictResult is the result of a prediction and the JSON line of `wdlrun predict --json`.
type PredictResult struct {
	WorldSize int `json:"world_size"`
	train.Model
	Version       int64                      `json:"version,omitempty"` // version of the exported model in Checkpoint
	Data          []string                   `json:"data"`
	Columns       []string                   `json:"columns"` // columns of the output
	Rows          int64                      `json:"rows"`    // rows of the output
	Bad           int64                      `json:"bad"`     // rows without a prediction
	Seconds       float64                    `json:"seconds"`
	RowsPerSecond float64                    `json:"rows_per_second"`
	Unknown       map[string]int64           `json:"unknown,omitempty"`     // by feature: values that training has not seen
	Why           map[string]metrics.Unknown `json:"unknown_why,omitempty"` // the same by reason
	Undated       []encode.Dates             `json:"undated,omitempty"`     // fields with values that should be dates and are none
	Outside       []report.Outside           `json:"outside_range,omitempty"`
}

// Prediction is a prediction on one rank of a group.
type Prediction struct {
	*train.Loader
	options *PredictOptions
	began   time.Time
}

// NewPrediction prepares a prediction on a group.
func NewPrediction(comm *collective.Comm, rec *trace.Recorder, opt PredictOptions) Prediction {
	opt.predict()
	o := train.Options{Resume: opt.Eval.Resume, Read: opt.Eval.Read, Peers: opt.Eval.Peers, Warn: opt.Eval.Warn}
	return Prediction{train.NewLoader(comm, rec, o, opt.Eval.use()), &opt, time.Now()}
}

// predict makes the evaluation a prediction.
func (o *PredictOptions) predict() {
	o.Eval.predicts, o.Eval.unlabelled = true, !o.Label
}

// check returns an error if columns of the output have the same name or do not exist in the
// data.
func (o *PredictOptions) check(c *config.Config, d *data.Dataset) error {
	names := map[string]bool{}
	for _, column := range o.columns(c) {
		if names[column.Name] {
			return fmt.Errorf("predict: two columns of the output are named %q: leave one of them out of -columns, or rename the field", column.Name)
		}
		names[column.Name] = true
	}
	if err := d.HasFields(o.Columns); err != nil {
		return fmt.Errorf("predict: -columns: %w", err)
	}
	return nil
}

// keys returns the key columns of the output.
func (o *PredictOptions) keys(c *config.Config) []keyColumn {
	if !o.Keys {
		return nil
	}
	return keyColumns(c, o.lists)
}

// columns returns the columns of the output: the copied fields; the keys; then, for each
// label, the label, the prediction and the logit. If there are several labels, column names
// end in the name of the label.
func (o *PredictOptions) columns(c *config.Config) (columns []write.Column) {
	for _, name := range o.Columns {
		columns = append(columns, write.Column{Name: name, Kind: value.Text})
	}
	for _, k := range o.keys(c) {
		kind := k.kind
		if o.Text {
			kind = value.Text
		}
		columns = append(columns, write.Column{Name: k.name, Kind: kind})
	}
	kind := value.Float32
	if o.Text {
		kind = value.Text
	}
	schema := input.SchemaOf(c)
	labels := schema.All()
	for i := range labels {
		end := ""
		if len(labels) > 1 {
			end = "_" + labels[i].Field
		}
		prediction, label := "score", kind
		if labels[i].IsNumber() {
			prediction = "prediction"
		} else if !o.Text {
			label = value.Int
		}
		if o.Label {
			columns = append(columns, write.Column{Name: "label" + end, Kind: label})
		}
		columns = append(columns, write.Column{Name: prediction + end, Kind: kind})
		if o.Logit {
			columns = append(columns, write.Column{Name: "logit" + end, Kind: kind})
		}
	}
	return columns
}

// predictNothing writes an output without rows.
func (p Prediction) predictNothing(res *PredictResult) error {
	columns := p.options.columns(p.Config)
	res.Columns, res.Data = names(columns), p.options.Eval.Data
	fault, err := save.First(p.Comm, p.Rec, func() error {
		out, err := p.options.Open(columns)
		if err != nil {
			return err
		}
		if err := out.Finish(); err != nil {
			out.Abandon()
			return err
		}
		return nil
	})
	if err == nil && fault != "" {
		err = errors.New(fault)
	}
	return err
}

// names returns the names of columns.
func names(columns []write.Column) (all []string) {
	for _, c := range columns {
		all = append(all, c.Name)
	}
	return slices.Clip(all)
}

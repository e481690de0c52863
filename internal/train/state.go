package train

import (
	"github.com/wdlrun/wdlrun/internal/data/stream"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/model/slots"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/progress"
	"github.com/wdlrun/wdlrun/internal/train/report"
)

// cursor is the state of a training job except for the parameters. It determines how the job
// continues and is the same on every rank.
type cursor struct {
	Epoch      int64             `json:"epoch"`    // epochs completed
	Consumed   int64             `json:"consumed"` // rows of the current epoch that are trained on
	Step       int64             `json:"step"`     // steps taken
	Samples    int64             `json:"samples"`  // samples trained on, over all epochs
	LastLoss   float64           `json:"last_loss"`
	Rows       int64             `json:"rows"`                 // training rows per epoch
	Data       string            `json:"data"`                 // fingerprint of the training data
	Shares     []input.Share     `json:"shares,omitempty"`     // its files by host, with data.hosts: each
	TrainData  string            `json:"train_data,omitempty"` // identity of the training data; "": of an earlier version
	ValidData  string            `json:"valid_data,omitempty"` // identity of the validation data; "": none
	ByLabel    bool              `json:"by_label,omitempty"`   // random validation rows are a share of each class; false in checkpoints of earlier versions
	Began      int64             `json:"began,omitempty"`      // step at which the training on this data began
	Order      int               `json:"order"`                // data.Order of the current epoch, 0 in checkpoints of earlier versions
	Progress   progress.State    `json:"progress"`
	Valid      *metrics.Metrics  `json:"valid,omitempty"`   // metrics of the last evaluation of validation data
	Best       int64             `json:"best"`              // step of the checkpoint of the best epoch, 0 for none
	AtBest     *metrics.Metrics  `json:"at_best,omitempty"` // metrics of the validation data at the best epoch
	Enough     bool              `json:"enough"`            // early stopping has ended the training
	Divergence report.Divergence `json:"divergence"`
	Gate       *report.Gate      `json:"gate,omitempty"` // metrics of the model that the training began with; nil: they are not compared
	Late       int64             `json:"late,omitempty"` // microbatches that did not count in the step in which they began

	losses
	dayCursor

	Stream *streamCursor `json:"stream,omitempty"` // position in training data that grows; nil: the data does not grow

	// Queue holds the remaining microbatches of an epoch in which some were late.
	Queue *slots.Queue `json:"queue,omitempty"`
}

// in returns the position in the training data.
func (c *cursor) in() input.At {
	return input.At{Epoch: c.Epoch, Consumed: c.Consumed, Before: c.before()}
}

// before returns the number of samples of the model in earlier epochs.
func (c *cursor) before() int64 { return c.Samples - c.Consumed - c.Refit.samples() }

// modelSteps returns the number of steps of the model.
func (c *cursor) modelSteps() int64 { return c.Step - c.Refit.steps() }

// chosen returns the number of steps of the model of a finished training, which is that of the best
// evaluation if early stopping chose it.
func (c *cursor) chosen(best bool) int64 {
	if best && c.Refit == nil {
		return c.Best
	}
	return c.modelSteps()
}

// source returns the step of the model that the training began with; 0: none.
func (c *cursor) source() int64 { return c.Began - c.Refit.steps() }

// losses are sums over the samples of the current epoch so far.
type losses struct {
	LossSum   float64 `json:"loss_sum"` // weighted losses
	WeightSum float64 `json:"weight_sum"`
}

// meanLoss returns the weighted mean of the losses, 0 if all weights are 0.
func (l losses) meanLoss() float64 {
	if l.WeightSum == 0 {
		return 0
	}
	return l.LossSum / l.WeightSum
}

// streamCursor is the position of a job in a stream.
type streamCursor struct {
	stream.Position
	Bad  int64              `json:"bad"`            // records left out of earlier spans
	Debt int64              `json:"debt,omitempty"` // of the unusable records and files so far, see schema.Bad
	Done []stream.Partition `json:"done,omitempty"` // positions in the topics before the span
}

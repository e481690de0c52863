package wdl

import (
	"github.com/wdlrun/wdlrun/internal/wdl/config"
	"github.com/wdlrun/wdlrun/internal/wdl/input"
	"github.com/wdlrun/wdlrun/internal/wdl/metrics"
	"github.com/wdlrun/wdlrun/internal/wdl/report"
	"github.com/wdlrun/wdlrun/internal/wdl/slots"
)

// cursor is the state of a training job besides the parameters: all that decides what it
// does next. It is the same on every rank.
type cursor struct {
	Epoch      int64             `json:"epoch"`    // epochs completed
	Consumed   int64             `json:"consumed"` // rows of the current epoch that are trained on
	Step       int64             `json:"step"`     // steps taken
	Samples    int64             `json:"samples"`  // samples trained on, over all epochs
	LossSum    float64           `json:"loss_sum"` // of the current epoch's samples so far
	LastLoss   float64           `json:"last_loss"`
	Rows       int64             `json:"rows"`  // training rows an epoch
	Data       string            `json:"data"`  // fingerprint of the training data
	Order      int               `json:"order"` // data.Order of the current epoch, 0 in checkpoints of earlier versions
	Progress   config.Progress   `json:"progress"`
	Valid      *metrics.Metrics  `json:"valid,omitempty"`   // of the last evaluation of validation data
	Best       int64             `json:"best"`              // step of the checkpoint of the best epoch, 0 for none
	AtBest     *metrics.Metrics  `json:"at_best,omitempty"` // of the validation data then
	Enough     bool              `json:"enough"`            // early stopping has ended the training
	Divergence report.Divergence `json:"divergence"`
	Late       int64             `json:"late,omitempty"` // microbatches that did not count in the step they were begun in

	Stream *streamCursor `json:"stream,omitempty"` // of training data that grows

	// Inside an epoch of which some microbatches came late: those that are left.
	Queue *slots.Queue `json:"queue,omitempty"`
}

// in is where the training is in its data.
func (c *cursor) in() input.At {
	return input.At{Epoch: c.Epoch, Consumed: c.Consumed, Before: c.Samples - c.Consumed}
}

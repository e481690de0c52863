package train

import (
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/train/progress"
	"github.com/wdlrun/wdlrun/internal/train/report"
)

// firstTraining is what the second training of a job, on all rows (train.refit), keeps of the first one. The
// second is a new training with a fixed number of epochs and without validation. Its steps
// and samples are counted after those of the first one, so that the checkpoints and metrics of a run
// have one order. The model counts its own steps: its bits are those of a job that trains on all rows
// for that number of epochs. A nil first is that of a first training.
type firstTraining struct {
	Epochs   int64            `json:"epochs"`  // of the second training: the best number of the first
	Steps    int64            `json:"steps"`   // taken by the first training
	Samples  int64            `json:"samples"` // trained on by the first training
	Rows     int64            `json:"rows"`    // training rows of the first training
	Source   string           `json:"source,omitempty"`
	InTime   bool             `json:"in_time,omitempty"` // the records are in the order of data.valid_time
	Progress progress.State   `json:"progress"`
	Enough   bool             `json:"enough,omitempty"` // early stopping ended the first training
	Valid    *metrics.Metrics `json:"valid"`
	Data     string           `json:"data"` // identity of the rows of Valid
	Improves string           `json:"improves,omitempty"`
}

// steps returns the number of steps before the first one of the model.
func (f *firstTraining) steps() int64 {
	if f == nil {
		return 0
	}
	return f.Steps
}

// samples returns the number of samples before the first one of the model.
func (f *firstTraining) samples() int64 {
	if f == nil {
		return 0
	}
	return f.Samples
}

// effective returns the configuration in effect: the written one, or that of the second training. The field
// by which rows were held out stays, because it is read.
func (f *firstTraining) effective(written *config.Config) *config.Config {
	if f == nil {
		return written
	}
	c := written.Clone()
	c.Data.ValidFraction = 0
	c.Train.EarlyStop.Patience, c.Train.Epochs = 0, int(f.Epochs)
	return c
}

// describe returns the entry of the result.
func (f *firstTraining) describe(rows int64) *report.Refit {
	return &report.Refit{Epochs: f.Epochs, Rows: rows, FirstRows: f.Rows, FirstSteps: f.Steps}
}

// refitCursor is the part of a cursor that train.refit needs.
type refitCursor struct {
	Source string         `json:"source,omitempty"` // checkpoint of the model that the training began with
	Refit  *firstTraining `json:"refit,omitempty"`  // in the second training; nil: this is the first
}

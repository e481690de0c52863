package wdl

import (
	"encoding/json"
	"io"

	"github.com/wdlrun/wdlrun/rank/commit"
	"github.com/wdlrun/wdlrun/wdl/config"
)

// cursor is where a training job stands: with the parameters, all that decides
// what it does next. It is the same on every rank.
type cursor struct {
	Epoch    int64           `json:"epoch"`    // epochs completed
	Consumed int64           `json:"consumed"` // rows of the current epoch that are trained on
	Step     int64           `json:"step"`     // steps taken
	Samples  int64           `json:"samples"`  // samples trained on, over all epochs
	LossSum  float64         `json:"loss_sum"` // of the current epoch's samples so far
	LastLoss float64         `json:"last_loss"`
	Rows     int64           `json:"rows"`  // training rows an epoch
	Data     string          `json:"data"`  // fingerprint of the training data
	Lanes    int             `json:"lanes"` // of the epoch's order
	Progress config.Progress `json:"progress"`
	Valid    *Metrics        `json:"valid,omitempty"`   // of the last evaluation of validation data
	Best     int64           `json:"best"`              // step of the checkpoint of the best epoch, 0 for none
	AtBest   *Metrics        `json:"at_best,omitempty"` // of the validation data then
	Enough   bool            `json:"enough"`            // early stopping has ended the training

	// Inside an epoch of which some microbatches came late: those that are left.
	Queue *commit.Queue `json:"queue,omitempty"`
}

// done reports whether only the test remains.
func (j *job) done() bool {
	return j.cursor.Enough || j.cursor.Epoch >= int64(j.config.Train.Epochs)
}

// The names of a checkpoint's sections. Rank 0 writes the first four; each rank
// writes the shards it owns.
const (
	sectionConfig  = "config"  // YAML, the configuration in effect
	sectionEncoder = "encoder" // JSON, see data.Encoder
	sectionCursor  = "cursor"  // JSON, see cursor
	sectionDense   = "dense"   // see dense.Arena
)

// sections is what takes the sections of a part: a file, or memory.
type sections interface {
	Section(name string, write func(io.Writer) error) error
}

// write puts this rank's share of the job's state into w.
func (j *job) write(w sections) error {
	if j.comm.Rank() == 0 {
		cur, err := json.Marshal(j.cursor)
		if err != nil {
			return err
		}
		for _, s := range []struct {
			name string
			data []byte
		}{{sectionConfig, j.config.YAML()}, {sectionEncoder, j.encoded}, {sectionCursor, cur}} {
			if err := w.Section(s.name, func(out io.Writer) error { _, err := out.Write(s.data); return err }); err != nil {
				return err
			}
		}
		if err := w.Section(sectionDense, j.trainer.model.arena.Save); err != nil {
			return err
		}
	}
	store := j.trainer.model.store
	for _, s := range store.Sections() {
		if err := w.Section(s.Name, func(out io.Writer) error { return store.SaveShard(out, s.Table, s.Shard) }); err != nil {
			return err
		}
	}
	return nil
}

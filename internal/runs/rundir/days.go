package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// Days is the content of days.json: the partitions that a model has been trained on, in the order
// of the trainings. A run of train -by has those of the model that it began with, and its own once
// it has finished. The ledger belongs to the model: whoever goes back to an earlier run goes back to
// its partitions.
type Days struct {
	By    string   `json:"by"`              // partition columns, or field=width
	Train []string `json:"train"`           // data.train of the command, before it was narrowed to a partition
	Where string   `json:"where,omitempty"` // data.where of the command
	Days  []Day    `json:"days"`

	Skipped []Day `json:"skipped,omitempty"` // partitions on which no model could be trained: Day and Mark
	Older   []Day `json:"older,omitempty"`   // partitions older than the model, not trained on, that a command has named: Day and Mark
}

// Day is a partition and how the model before it predicted it.
type Day struct {
	Day     string   `json:"day"`               // value of the partition columns, or the begin of a window
	End     int64    `json:"end,omitempty"`     // end of its event time, Unix seconds; 0: it is no date
	Mark    string   `json:"mark,omitempty"`    // identity of its files, by names and sizes, or of its rows; "": unknown
	Times   string   `json:"times,omitempty"`   // identity of the times of its files; "": unknown
	Content string   `json:"content,omitempty"` // identity of the bytes of its files; "": unknown
	Rows    int64    `json:"rows"`
	Keys    int64    `json:"new_keys"`               // rows of tables that the training added
	Retired int64    `json:"retired_rows,omitempty"` // rows of tables that train.retain removed before it
	AUC     *float64 `json:"auc,omitempty"`          // of the model before it, as are the following metrics; null: none
	LogLoss *float64 `json:"logloss,omitempty"`
	Calib   *float64 `json:"calibration,omitempty"`
	Entropy *float64 `json:"normalised_entropy,omitempty"`
	Seconds float64  `json:"seconds"`       // of the last job of its training
	Step    int64    `json:"step"`          // of the model at its end
	Run     string   `json:"run,omitempty"` // name of the run directory

	Seen  bool   `json:"seen,omitempty"`  // the model before it was trained on it too: the metrics are of rows that it knew
	Named string `json:"named,omitempty"` // state of its files, changed since, that a command has named
	Again string `json:"again,omitempty"` // value of -again by which it was trained on again
}

// maxDays is the largest size of days.json, in bytes: about 100,000 partitions.
const maxDays = 32 << 20

// ReadDays reads days.json of a run directory. Without the file, By is "".
func ReadDays(dir string) (d Days, err error) {
	b, err := regular.ReadFile(filepath.Join(dir, FileDays), maxDays)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d, nil
	case err == nil:
		err = json.Unmarshal(b, &d)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", filepath.Join(dir, FileDays), err)
	}
	return d, err
}

// WriteDays writes days.json.
func WriteDays(dir string, d Days) error {
	b, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return err
	}
	return WriteFile(dir, FileDays, append(b, '\n'))
}

// Skips reports whether no model could be trained on a partition, which has not changed since.
func (d *Days) Skips(day, mark string) bool {
	return slices.ContainsFunc(d.Skipped, func(s Day) bool { return s.Day == day && s.Mark == mark })
}

// Last returns the last training on a partition; nil: there was none.
func (d *Days) Last(day string) *Day {
	for i := len(d.Days) - 1; i >= 0; i-- {
		if d.Days[i].Day == day {
			return &d.Days[i]
		}
	}
	return nil
}

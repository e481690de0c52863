package train

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/model/metrics"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train/input"
)

// Day is the partition that a training of train -by is on.
type Day struct {
	Day     string
	End     int64  // end of its event time, Unix seconds; 0: it is no date
	Mark    string // identity of its files or rows, as are the next two; see rundir.Day
	Times   string
	Content string
	Valid   string      `json:",omitempty"` // identity of the files of the next partition, on which train.gate compares
	Ledger  rundir.Days // By, Train and Where of the command; Days if the source has no ledger
	Retire  int64       // train.retain: rows of tables whose last gradient was at this step or before are removed; 0: none
	Again   string      `json:",omitempty"` // value of -again that names it
	Counted bool        `json:",omitempty"` // the source was trained on it
	Lacks   []string    `json:",omitempty"` // columns that its files do not have, and those of another partition do
	Kept    *Kept       `json:"-"`          // model of the training before in this process, and then of this one; nil: none is kept
}

// Bytes returns the identity of the bytes that the training reads; "" if they are not known.
func (d *Day) Bytes() string {
	return strings.TrimSpace(d.Content + " " + d.Valid)
}

// Inputs returns the fields of records that the features and conditions of a configuration need.
func Inputs(c *config.Config) []string {
	s := input.SchemaOf(c).Unlabelled()
	return c.Data.With(c.Data.TrainWhere).Reads(s.Fields())
}

// missingColumns returns the columns that the files of a partition do not have.
func (d *Day) missingColumns() []string {
	if d == nil {
		return nil
	}
	return d.Lacks
}

// kept returns the model that the process keeps; nil: none.
func (d *Day) kept() *Kept {
	if d == nil {
		return nil
	}
	return d.Kept
}

// begin writes the ledger of the source to the run directory of a new training, on rank 0.
func (d *Day) begin(runDir, source string) error {
	l := d.Ledger
	if source != "" {
		was, err := rundir.ReadDays(runOfCheckpoint(source))
		if err != nil {
			return err
		}
		if was.By != "" {
			l.Days, l.Skipped, l.Older = was.Days, was.Skipped, was.Older
			for _, s := range d.Ledger.Skipped {
				if !l.Skips(s.Day, s.Mark) {
					l.Skipped = append(l.Skipped, s)
				}
			}
		}
	}
	return rundir.WriteDays(runDir, l)
}

// Rows returns the number of rows of the training data of a configuration, which it reads in this
// process.
func Rows(ctx context.Context, c *config.Config) (int64, error) {
	c = c.Clone()
	c.Data.ValidTime, c.Data.ValidGroup = "", ""                    // held-out rows count, whichever they are
	in, err := input.Open(input.Setup{Config: c, Lacks: Inputs(c)}) // rows count, whatever columns they have
	if err != nil {
		return 0, err
	}
	counts, err := in.Train.Scan(ctx, 0, 1, nil, nil)
	if err == nil {
		err = in.Train.Use(counts)
	}
	if err != nil {
		return 0, err
	}
	return in.Train.Rows(data.All), nil
}

// Retires returns the step up to which rows are removed by train.retain before the training on a
// partition that begins at a time: the end of the trainings of a ledger before the first on a
// partition that ends within the days before it.
func Retires(done *rundir.Days, begin int64, days int) (step int64) {
	for i := range done.Days {
		if done.Days[i].End > begin-int64(days)*24*60*60 {
			break
		}
		step = done.Days[i].Step
	}
	return step
}

// runOfCheckpoint returns the run directory of a checkpoint.
func runOfCheckpoint(dir string) string {
	if up := filepath.Dir(dir); filepath.Base(up) == checkpoint.Folder {
		return filepath.Dir(up)
	}
	return dir
}

// IsEmpty reports whether an error is about training data without rows, or without any that can be held out as the newest.
func IsEmpty(err error) bool {
	return errors.Is(err, data.ErrNoRecords) || errors.Is(err, data.ErrOneTime) || errors.Is(err, record.ErrNoLine)
}

// dayCursor is the part of the cursor that is about the partition, and about the model before it.
type dayCursor struct {
	Day       *rundir.Day      `json:"day,omitempty"`        // with train -by: how the source predicted the partition
	DayBefore *metrics.Metrics `json:"day_before,omitempty"` // all its metrics
	Kept      int64            `json:"kept,omitempty"`       // rows of tables that the training began with
	Retired   int64            `json:"retired,omitempty"`    // rows of tables that train.retain removed
	Newer     bool             `json:"newer,omitempty"`      // the training data has changed since the vocabularies were made

	refitCursor
}

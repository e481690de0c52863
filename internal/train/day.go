package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train/evaluate"
	"github.com/wdlrun/wdlrun/internal/train/report"
)

// dayByDay keeps the ledger of train -by in the run directory.
type dayByDay struct{ *run }

// judge evaluates the source on the whole partition, before the training on it. old has the source
// and the data.
func (d dayByDay) judge(ctx context.Context, old *run) error {
	day := rundir.Day{Rows: old.in.Train.Rows(data.All)}
	m, err := old.evaluation().Over(ctx, old.in.Train, data.All, evaluate.Pass{})
	if err != nil {
		return fmt.Errorf("%s cannot be evaluated on %s: %w", d.source.Dir(), d.opt.Day.Day, err)
	}
	day.AUC, day.LogLoss, day.Calib, day.Entropy = m.AUC, &m.LogLoss, m.Calibration, m.NormalisedEntropy
	d.cursor.Day, d.cursor.DayBefore = &day, &m.Metrics
	if d.Comm.Rank() == 0 {
		l, err := rundir.ReadDays(d.runDir)
		if err != nil {
			return err
		}
		day.Seen = l.Last(d.opt.Day.Day) != nil
	}
	seen := ""
	if day.Seen {
		seen = ", and was trained on it"
	}
	d.Say(fmt.Sprintf("%s: the model before it has %s%s", d.opt.Day.Day, m.Brief(), seen))
	return nil
}

// end adds the partition to the ledger of a finished training.
func (d dayByDay) end(res *report.Result) error {
	o := d.opt.Day
	if res.Stopped {
		return nil
	}
	if o == nil {
		dayLedger{d.run}.end(res)
		return nil
	}
	day := *cmp.Or(d.cursor.Day, &rundir.Day{})
	day.Day, day.End, day.Mark, day.Times, day.Content, day.Again, day.Run = o.Day, o.End, o.Mark, o.Times, o.Content, o.Again, filepath.Base(d.runDir)
	day.Rows, day.Keys, day.Retired, day.Seconds, day.Step = d.in.Train.Rows(data.All), addedRows(d.cursor.Kept, res), d.cursor.Retired, res.Seconds, d.cursor.chosen(res.BestEpoch > 0)
	res.Day = &day
	if d.Comm.Rank() != 0 {
		return nil
	}
	l, err := rundir.ReadDays(d.runDir)
	if err == nil && l.By == "" {
		err = fmt.Errorf("%s is missing", filepath.Join(d.runDir, rundir.FileDays))
	}
	if n := len(l.Days); n > 0 && l.Days[n-1].Run == day.Run { // it was killed after this
		l.Days = l.Days[:n-1]
	}
	l.Days = append(l.Days, day)
	if err == nil {
		err = rundir.WriteDays(d.runDir, l)
	}
	if err != nil {
		return fmt.Errorf("the ledger of train -by is not written, so the next command would train on %s again: %w", o.Day, err)
	}
	d.report.Days(&l, d.cursor.DayBefore, report.Line{Step: d.cursor.Step, Epoch: d.cursor.Epoch, Samples: d.cursor.Samples})
	return nil
}

// skipped is the error of a partition on which no model can be trained; train -by continues with
// the next one.
type skipped struct{ error }

func (s skipped) Unwrap() error { return s.error }

// skip ends a training on such a partition. The run directory is removed if it is new.
func (d dayByDay) skip(err error) (res report.Result, ok bool) {
	s, ok := errors.AsType[skipped](err)
	if !ok {
		return res, false
	}
	if d.Comm.Rank() == 0 {
		if found, err := checkpoint.List(filepath.Join(d.runDir, checkpoint.Folder)); err == nil && len(found) == 0 {
			d.turn.Close()
			if err := os.RemoveAll(d.runDir); err != nil {
				d.Warn(fmt.Sprintf("%s is left behind: %v", d.runDir, err))
			}
		}
	}
	return report.Result{WorldSize: d.Comm.Size(), Skipped: s.Error(), RunDir: d.runDir}, true
}

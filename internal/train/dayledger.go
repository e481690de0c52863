package train

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/walk"
)

// dayLedger keeps the ledger of train -by in a run directory when a training without -by continues its
// model, so that -by can go on after it.
type dayLedger struct{ *run }

// begin writes the ledger of the source, if it has one, with the partitions of the training's own data.
func (k dayLedger) begin(runDir, source, text string) {
	l, err := rundir.ReadDays(runOfCheckpoint(source))
	if err == nil && l.By == "" {
		return
	}
	var c *config.Config
	if err == nil {
		c, err = config.Parse(rundir.FileConfig, []byte(text))
	}
	if err == nil {
		l.Days = append(l.Days, k.partitions(&l, c, runDir)...)
		err = rundir.WriteDays(runDir, l)
	}
	if err != nil {
		k.Warn(fmt.Sprintf("train -by cannot go on after this training, because the ledger of the model before it is not taken over: %v", err))
	}
}

// partitions returns the partitions of the training's data. Those of windows are not known: nothing tells which
// rows of them it is on.
func (k dayLedger) partitions(l *rundir.Days, c *config.Config, runDir string) (days []rundir.Day) {
	by, err := walk.ParseBy(l.By)
	if err == nil && by.Columns == nil {
		err = fmt.Errorf("its rows are not divided by -by %s", l.By)
	}
	var parts *walk.Parts
	if err == nil {
		parts, err = walk.List(context.Background(), c.Data, by, 0)
	}
	if err != nil {
		k.Warn(fmt.Sprintf("train -by does not know which partitions this training is on, and would train on them again: %v", err))
		return nil
	}
	for i := range parts.All {
		p := &parts.All[i]
		if p.Train == nil {
			continue
		}
		days = append(days, rundir.Day{Day: p.Day, End: p.End, Mark: p.Mark, Run: filepath.Base(runDir), Seen: l.Last(p.Day) != nil})
	}
	return days
}

// end completes the partitions of the training in the ledger. The rows of each are known if there is one.
func (k dayLedger) end(res *report.Result) {
	if k.Comm.Rank() != 0 {
		return
	}
	l, err := rundir.ReadDays(k.runDir)
	if err == nil && l.By == "" {
		return
	}
	name, own := filepath.Base(k.runDir), 0
	for i := range l.Days {
		if l.Days[i].Run == name {
			own++
		}
	}
	if own == 0 { // train -by began it, and train -resume continued it
		days := k.partitions(&l, k.config, k.runDir)
		l.Days, own = append(l.Days, days...), len(days)
	}
	for i := range l.Days {
		d := &l.Days[i]
		if d.Run != name {
			continue
		}
		d.Seconds, d.Step = res.Seconds, k.cursor.chosen(res.BestEpoch > 0)
		if own == 1 && k.in.Train != nil {
			d.Rows, d.Keys = k.in.Train.Rows(data.All), addedRows(k.cursor.Kept, res)
		}
	}
	if err == nil {
		err = rundir.WriteDays(k.runDir, l)
	}
	if err != nil {
		k.Warn(fmt.Sprintf("the ledger of train -by is not complete, so the next command may train on partitions of this training again: %v", err))
	}
}

// addedRows returns the rows of tables that a training added to those that it kept.
func addedRows(kept int64, res *report.Result) int64 {
	rows := -kept
	for _, t := range res.Tables {
		rows += t.Rows
	}
	return max(0, rows)
}

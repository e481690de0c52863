package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/trace"
)

// load restores parameters, tables and cursor from a checkpoint of any world size. A
// cursor inside an epoch requires unchanged training data.
func (j *job) load(c *checkpoint.Checkpoint) error {
	j.Rec.Enter(trace.Restore)
	was := j.cursor
	j.cursor = cursor{}
	if err := save.ReadJSON(c, save.SectionCursor, &j.cursor); err != nil {
		return err
	}
	if j.cursor.WeightSum == 0 && j.cursor.LossSum != 0 {
		j.cursor.WeightSum = float64(j.cursor.Consumed) // an earlier version added means of batches, each times its rows
	}
	renewed, err := (renewing{&j.run}).renew(c, &was, j.orders.again)
	if err != nil {
		return err
	}
	j.renewed = renewed.evaluations()
	j.cursor.Newer = j.cursor.Newer || renewed.train && !renewed.less
	if err := j.cursor.checkOrder(); err != nil {
		return fmt.Errorf("%w%s", err, lastEnd(c.Dir()))
	}
	j.cursor.Order = data.Order
	if stop := j.config.Train.EarlyStop; j.cursor.Enough { // the patience may have been increased
		j.cursor.Enough = stop.Patience > 0 && j.cursor.Progress.Waited >= stop.Patience
	}
	j.saves.saver.Resume(c.Step(), len(c.Chain())-1)
	return j.trainer.Load(c, nil, j.cursor.Refit.steps(), save.FilledConfig)
}

// Run trains, evaluates and writes all results to the run directory. All ranks return the
// same result or an error.
//
// With replicas, call TakeMemory after an error.
func (j *Job) Run(ctx context.Context) (_ report.Result, err error) {
	defer func() {
		if err == nil || j.opt.Replicas < 2 {
			j.close()
		}
	}()
	defer func() { j.volumes.Close() }()
	defer func() { j.saves.saver.Stop() }()
	j.Comm.Watch(j.Rec.Exchange)
	left, err := j.healing.gather()
	if err != nil {
		return report.Result{}, err
	}
	if left.Leader < 0 {
		err = j.start(ctx)
	} else {
		err = j.healing.heal(left)
	}
	if res, ok := (dayByDay{&j.run}).skip(err); ok {
		return res, nil
	}
	if err != nil {
		return report.Result{}, err
	}
	j.announce()
	j.faults.slowDown(j.trainer)
	if err := j.saves.saver.Warm(j.cursor); err != nil {
		return report.Result{}, err
	}
	if err := j.saves.publish(ctx); err != nil {
		return report.Result{}, err
	}
	defer func() { j.saves.publisher.Stop() }()
	if j.tolerant, err = j.tolerate(j.orders.script, j.orders.changed); err != nil {
		return report.Result{}, err
	}
	defer j.tolerant.end()
	j.batches = j.chooseBatches()
	defer func() { j.stream.Close() }()
	if j.Comm.Rank() == 0 {
		j.warnOfSettings()
	}
	j.report.Open(j.runDir, j.written.YAML(), j.opt.Hosts, j.cursor.Step, j.effort())
	defer j.report.Close()
	stopped, err := j.loop(ctx)
	if err == nil && !stopped {
		stopped, err = j.refit(ctx)
	}
	if err != nil {
		return report.Result{}, err
	}
	j.leaveDevices()
	res, err := j.finish(ctx, stopped)
	if err != nil {
		return report.Result{}, err
	}
	return res, j.keepModel(&res)
}

// keepModel keeps the model of a finished training for the next partition. Models that only a
// checkpoint can pass on, such as those of devices, are not kept.
func (j *job) keepModel(res *report.Result) error {
	if j.opt.Day == nil || j.opt.Day.Kept == nil {
		return nil
	}
	k := j.opt.Day.Kept
	err := k.Close()
	for _, t := range j.config.Tables {
		if t.Tier != (config.Tier{}) {
			return err
		}
	}
	if res.Checkpoint == "" || res.Stopped || res.Gate.Closed() || j.device != nil || j.tolerant != nil || j.opt.Replicas > 1 {
		return err
	}
	k.run, k.dir, k.config, k.trainer = j.runDir, res.Checkpoint, j.written, j.trainer
	j.trainer = nil
	return err
}

// refit trains again on all rows if train.refit asks for it: with a new model, statistics of all rows,
// and the number of epochs that was the best for the first training. It writes no checkpoint before the
// first step, so a job that ends earlier begins again from the end of the first training.
func (j *job) refit(ctx context.Context) (stopped bool, err error) {
	r := refitting{&j.run}
	if !r.due() {
		return false, nil
	}
	if err := j.saves.wait(); err != nil {
		return false, err
	}
	if ok, err := r.reopen(); !ok || err != nil {
		return false, err
	}
	was, saver := j.cursor, j.saves.saver
	f := r.keep(j.validation.rows(), j.validation.improving())
	j.leaveDevices()
	if err := j.trainer.Close(); err != nil {
		return false, err
	}
	j.trainer, j.device = nil, nil
	j.in.CloseFeed()
	j.warned.beginSecond()
	j.Say(fmt.Sprintf("training again on all %d rows, for %s (train.refit); the validation metrics are those of the first training", j.in.Train.Rows(data.All), plural.Of(int(f.Epochs), "epoch")))
	j.cursor.Refit, j.config = f, f.effective(j.written)
	if err := j.prepare(ctx, nil); err != nil {
		return false, permanentAtStart(err)
	}
	c := &j.cursor
	c.Gate, c.Day, c.DayBefore = was.Gate, was.Day, was.DayBefore
	j.saves.saver.Heal(saver, saver.Last(), j.report.Spent())
	j.saves.at = time.Now()
	j.batches = j.chooseBatches()
	return j.loop(ctx)
}

// start starts a training or resumes it from a checkpoint.
func (j *job) start(ctx context.Context) (err error) {
	if j.orders, err = j.briefing(ctx, nil); err != nil {
		return permanentAtStart(err)
	}
	from := j.orders.from
	if from != nil {
		if err := (refitting{&j.run}).resume(from); err != nil {
			return permanentAtStart(err)
		}
	}
	j.healing.ring = j.orders.ring
	j.announce()
	if err := j.prepare(ctx, from); err != nil {
		return permanentAtStart(err)
	}
	j.saves.at = time.Now()
	before := leftOut(&j.run)
	before.Bad -= j.in.Bad() // which this job has found
	j.report.Begin(report.Since{Samples: j.cursor.Samples, Step: j.cursor.Step, Totals: j.Rec.Totals(), LeftOut: before})
	j.trains = j.opt.Replicas > 1
	if !(refitting{&j.run}).due() {
		if err := (renewing{&j.run}).checkWork(from, j.orders.settings, j.renewed); err != nil {
			return err
		}
	}
	if from == nil || j.done() {
		return nil
	}
	j.Say("training resumes " + j.position())
	if j.Comm.Rank() == 0 {
		return keepConfig(j.runDir, j.written)
	}
	return nil
}

// prepare surveys the data, makes the model and loads the checkpoint.
func (j *job) prepare(ctx context.Context, from *checkpoint.Checkpoint) (err error) {
	if err := j.survey(ctx, from); err != nil {
		if j.opt.Day != nil && IsEmpty(err) {
			err = skipped{err}
		}
		return err
	}
	if err := j.startCursor(); err != nil {
		if j.opt.Day != nil {
			err = skipped{err}
		}
		return err
	}
	var feed *data.Reader
	if from == nil && j.source == nil && j.in.Train != nil && j.opt.Tolerance.Off() && j.config.Train.Slots == 0 {
		if feed, err = j.in.Feed(j.cursor.in()); err != nil { // reads ahead while other data is counted and the model is made
			return err
		}
	}
	if err := j.surveyOthers(ctx); err != nil {
		return err
	}
	(renewing{&j.run}).identify()
	if err := j.plan(ctx, from, feed, j.saves.enough); err != nil {
		return err
	}
	if from == nil && j.cursor.Refit == nil {
		if err := (gating{&j.run}).judgeSource(ctx); err != nil {
			return err
		}
	}
	if j.trainer, err = j.newTrainer(nil); err != nil {
		return err
	}
	if j.opt.Replicas > 1 {
		err = j.trainer.Replicate(j.healing.ring)
	}
	j.saves.open()
	if from != nil && err == nil {
		err = j.load(from)
	}
	if j.source != nil && err == nil {
		if err = (taking{&j.run}).loadSource(); err == nil {
			j.warnOfCounted()
		}
	}
	if from == nil && err == nil {
		err = (pretrained{&j.run}).begin()
	}
	if err == nil {
		err = j.spans.open()
	}
	j.Rec.Enter(trace.Wait)
	return err
}

// startCursor sets the cursor of a new training.
func (j *job) startCursor() error {
	f := j.cursor.Refit
	j.cursor = cursor{Order: data.Order, ByLabel: j.cursor.ByLabel, dayCursor: dayCursor{refitCursor: refitCursor{Refit: f}}, Step: f.steps(), Samples: f.samples(), Began: f.steps()}
	if j.in.Train == nil {
		return nil // a stream
	}
	j.cursor.Rows, j.cursor.Data, j.cursor.Shares = j.in.Train.Rows(data.Train), j.in.Train.Fingerprint(), j.in.Shares
	if j.cursor.Rows == 0 {
		return errors.New("all rows of the training data are held out; none is left to train on")
	}
	n, ones := j.cursor.Rows, j.in.Train.TrainPositives()
	switch {
	case j.config.Label.IsNumber():
	case ones == 0:
		return fmt.Errorf("none of the %d training rows has the label 1, %s; to list the values of the field: wdlrun data check -config FILE", n, input.LabelRule(&j.config.Label))
	case ones == n:
		return fmt.Errorf("all %d training rows have the label 1, %s; to list the values of the field: wdlrun data check -config FILE", n, input.LabelRule(&j.config.Label))
	}
	return nil
}

// warnOfSettings warns of settings that are valid but probably not intended.
func (j *job) warnOfSettings() {
	if _, line := report.Rates(j.config.Train, j.Comm.Size()); !j.done() {
		j.opt.Say(line)
	}
	if why := (refitting{&j.run}).noEffect(); why != "" && !j.done() {
		j.opt.Warn("train.refit has no effect, so the model is that of the best epoch: " + why)
	}
	if line := input.FewPositives(j.in); line != "" && !j.done() {
		j.opt.Warn(line)
	}
	for i, t := range j.config.Tables {
		if n := t.Evict.MaxRows; n > 0 && n < layout.Shards {
			j.opt.Warn(fmt.Sprintf("tables[%d].evict.max_rows: %d counts as %d for table %s, one row in each of its shards: give at least as many", i, n, layout.Shards, t.Name))
		}
	}
	for i, t := range j.planned.Tables {
		j.report.WarnTierLimit(j.config, i, t.Name, t.TierLeast)
	}
	if j.stream != nil {
		return
	}
	if s := j.config.Train.Schedule; s.Warmup >= j.total()-j.cursor.Began && !j.done() {
		j.opt.Warn(fmt.Sprintf("the learning rate never reaches its full value: train.schedule.warmup is %d steps, the training has %d", s.Warmup, j.total()-j.cursor.Began))
	}
}

// chooseBatches returns the source of batches for the configuration.
func (j *job) chooseBatches() batchSource {
	switch s := j.config.Train.Slots; {
	case j.tolerant != nil:
		return j.tolerant
	case s > 0:
		return j.newSlotBatches(s)
	}
	return j.newSyncBatches()
}

package train

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/progress"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/save"
)

// renewing decides, for a training that resumes, which state of the checkpoint still holds.
type renewing struct{ *run }

// streamData is the identity of training data that grows.
const streamData = "stream"

// identify records in the cursor of a new training to which data its epochs and its evaluations
// belong. All data has been surveyed.
func (r renewing) identify() {
	c, d := &r.cursor, &r.config.Data
	c.TrainData, c.ValidData = streamData, ""
	if r.in.Train != nil {
		c.TrainData = data.IdentityOf(r.in.Train)
	}
	switch {
	case r.in.Valid == nil:
	case r.in.Valid == r.in.Train && d.ValidTime == "" && d.ValidGroup == "":
		c.ValidData = r.in.Train.Fingerprint() // records are held out by their position
	default:
		c.ValidData = data.IdentityOf(r.in.Valid)
	}
}

// renewal describes which state of a checkpoint does not belong to the data or to the metric of
// the training that resumes from it.
type renewal struct {
	train, valid bool // this data has changed
	less         bool // the same training continues with less data, because hosts are lost or it restarts after a failure
	metric       bool // evaluations are compared by another metric
	reordered    bool // the files of the training data are in another order
}

// renewal compares the cursor of a checkpoint, and the configuration that it contains, with the
// cursor of a new training and the configuration in effect.
func (c *cursor) renewal(fresh *cursor, was, now *config.Config) (n renewal) {
	train, valid := c.TrainData, c.ValidData
	if train == "" { // an earlier version did not record it
		valid = fresh.ValidData
		if !slices.Equal(was.Data.Valid, now.Data.Valid) {
			valid = "other"
		}
		switch {
		case c.Stream != nil:
			train = streamData
		case c.Data == fresh.Data:
			train = fresh.TrainData
		}
	}
	n.train, n.valid = train != fresh.TrainData, valid != fresh.ValidData
	n.metric = was.Train.EarlyStop.Metric != now.Train.EarlyStop.Metric
	n.reordered = !n.train && fresh.TrainData != streamData && c.Data != fresh.Data
	return n
}

// evaluations reports whether the state of early stopping and of a plateau does not hold.
func (n renewal) evaluations() bool { return n.train || n.valid || n.metric }

// apply removes the state that does not belong to the data from the cursor of a checkpoint.
func (n renewal) apply(c *cursor) {
	if n.train && !n.less {
		c.Epoch, c.Consumed, c.losses, c.LastLoss, c.Queue = 0, 0, losses{}, 0, nil
		c.Began = c.Step
	}
	if n.evaluations() {
		c.Progress, c.Valid, c.Best, c.AtBest, c.Enough = progress.State{}, nil, 0, nil, false
	}
	if c.Gate != nil && (n.train || n.valid) {
		c.Gate = &report.Gate{From: c.Gate.From}
	}
}

// line describes what has changed since the checkpoint of a step, what is kept and what starts
// again; "" if nothing has changed.
func (n renewal) line(step int64, c *config.Config) string {
	switch {
	case n.less:
		return fmt.Sprintf("the training data has changed since the checkpoint of step %d, and the job is the same: early stopping, the factor of a plateau and the best evaluation start again; epochs continue", step)
	case n.train:
		line := fmt.Sprintf("the training data has changed since the checkpoint of step %d: epochs, learning-rate schedule, early stopping and the best evaluation start again; rows, layers, optimizer states, vocabularies and statistics of the model are kept", step)
		if names := vocabularies(c); names != "" {
			line += "; a value that is not in the vocabulary of " + names + " is treated as unknown (train -from gives new values rows of their own)"
		}
		return line
	case n.valid && n.reordered:
		return fmt.Sprintf("the files of the training data are in another order than at the checkpoint of step %d, so other records are held out, and some of them have been trained on: early stopping and the best evaluation start again; epochs continue", step)
	case n.valid:
		return fmt.Sprintf("the validation data has changed since the checkpoint of step %d: early stopping, the factor of a plateau and the best evaluation start again; the model and its epochs continue", step)
	case n.metric:
		return fmt.Sprintf("train.early_stop.metric has changed since the checkpoint of step %d: early stopping, the factor of a plateau and the best evaluation start again; the model and its epochs continue", step)
	case n.reordered:
		return fmt.Sprintf("the files of the training data have other names or another order than at the checkpoint of step %d; their records are the same, so epochs and early stopping continue", step)
	}
	return ""
}

// vocabularies names the features with a vocabulary, a few of them.
func vocabularies(c *config.Config) string {
	var names []string
	for i := range c.Features {
		if c.Features[i].Encode == "vocabulary" {
			names = append(names, c.Features[i].Name)
		}
	}
	const few = 4
	if n := len(names) - few; n > 0 {
		return strings.Join(names[:few], ", ") + " and " + plural.Of(n, "more feature")
	}
	return strings.Join(names, ", ")
}

// checkWork returns an error if the user asked for a training that would take no step. A job that
// restarts after a failure may have no step left, and a run without its result still needs one.
// With -resume auto, a complete training is no error if nothing has changed: launchers give the
// same command again.
func (r renewing) checkWork(from *checkpoint.Checkpoint, settings []string, renewed bool) error {
	if from == nil || !r.done() && !r.pastSteps() {
		return nil
	}
	fault, err := save.First(r.Comm, r.Rec, func() error {
		switch changed := renewed || len(settings) > 0; {
		case r.opt.Again != "", r.opt.Auto && !changed:
			return nil
		case !r.opt.picked(from) && !report.Ended(r.runDir, r.cursor.Step):
			return nil
		}
		return errors.New(r.noWork())
	})
	if err != nil || fault == "" {
		return err
	}
	return permanent(errors.New(fault))
}

// pastSteps reports whether a stream has had its steps.
func (r renewing) pastSteps() bool {
	steps := r.config.Data.Follow.Steps
	return r.config.Data.Follow.On && steps > 0 && r.cursor.Step >= steps
}

// NothingLeft begins the error of a training that would take no step.
const NothingLeft = "nothing to train: "

// noWork describes why no step is left, and what to change.
func (r renewing) noWork() string {
	c, t := &r.cursor, &r.config.Train
	var why, cure []string
	switch {
	case r.pastSteps():
		why = append(why, fmt.Sprintf("it has taken %d steps, the limit of data.follow.steps", c.Step))
		cure = append(cure, fmt.Sprintf("-set data.follow.steps=N with N above %d", c.Step))
	case c.Refit != nil:
		return fmt.Sprintf(NothingLeft+"%s is complete at step %d: it has trained again on all rows, for %s (train.refit); to train more, on these files or others, begin a new run with its model: train -from %s; to evaluate it: wdlrun eval -resume %s",
			r.runDir, c.Step, plural.Of(int(c.Epoch), "epoch"), r.runDir, r.runDir)
	case r.stream == nil && c.Epoch >= int64(t.Epochs):
		why = append(why, fmt.Sprintf("it has trained %s of this data, and train.epochs is %d", plural.Of(int(c.Epoch), "epoch"), t.Epochs))
		cure = append(cure, fmt.Sprintf("-set train.epochs=N with N above %d", c.Epoch))
	}
	if c.Enough {
		n := c.Progress.Waited
		why = append(why, fmt.Sprintf("early stopping ended it after %s without improvement", plural.Of(n, "evaluation")))
		cure = append(cure, fmt.Sprintf("-set train.early_stop.patience=N with N above %d", n))
	}
	return fmt.Sprintf(NothingLeft+"%s is complete at step %d: %s; to train more: %s; to train on other data: -set data.train=[FILES], or begin a new run with its model: train -from %s; to evaluate it: wdlrun eval -resume %s",
		r.runDir, c.Step, strings.Join(why, ", and "), strings.Join(cure, " and "), r.runDir, r.runDir)
}

// renew removes from the cursor of a checkpoint the state that does not belong to the data of
// this job. fresh is the cursor of a new training on it; again reports that the job restarts.
func (r renewing) renew(from *checkpoint.Checkpoint, fresh *cursor, again bool) (n renewal, err error) {
	was, err := save.ReadConfig(from)
	if err != nil {
		return n, err
	}
	was.Fill()
	now := &r.cursor
	n = now.renewal(fresh, was, r.config)
	if n.train && !again && now.Refit != nil {
		return n, permanent(fmt.Errorf("resume: the training data has changed since the checkpoint of step %d, which is of a training on all rows (train.refit): begin a new training with its model: train -from %s", now.Step, runOfCheckpoint(from.Dir())))
	}
	n.less = n.train && (again || slices.Equal(was.Data.Train, r.config.Data.Train) && r.lacksHosts(now.Shares))
	if r.in.Train != nil && now.Data != fresh.Data {
		ended := n.train && !n.less && (now.Enough || now.Consumed == now.Rows)
		if err := r.checkPosition(from, fresh, ended, n.less); err != nil {
			return n, err
		}
		now.Rows, now.Data, now.Shares = fresh.Rows, fresh.Data, fresh.Shares
	}
	n.apply(now)
	now.TrainData, now.ValidData = fresh.TrainData, fresh.ValidData
	if line := n.line(now.Step, r.config); line != "" {
		r.Say(line)
	}
	return n, nil
}

// lacksHosts reports whether hosts of the shares of a checkpoint are not in this job.
func (r renewing) lacksHosts(shares []input.Share) bool {
	return r.config.Data.EachHost() && slices.ContainsFunc(shares, func(s input.Share) bool {
		return s.Files > 0 && !slices.Contains(r.opt.Hosts, s.Host)
	})
}

// checkPosition returns an error if a training inside an epoch would resume with other data.
// ended reports that it does not need the rest of the epoch, less that it continues with less data.
func (r renewing) checkPosition(from *checkpoint.Checkpoint, fresh *cursor, ended, less bool) error {
	now, gone := &r.cursor, ""
	if r.config.Data.EachHost() {
		gone = input.Gone(now.Shares, fresh.Shares, r.opt.Hosts, now.Consumed > 0)
	}
	end, err := r.lastEndOf(from)
	switch {
	case err != nil:
		return err
	case now.Consumed > 0 && gone != "":
		return permanent(fmt.Errorf("resume: data.hosts: each: %s; the checkpoint of step %d is inside an epoch of all files; from one at the end of an epoch, a training resumes without them%s", gone, now.Step, end))
	case now.Consumed > 0 && !ended:
		return fmt.Errorf("resume: the training data has changed: %d rows, fingerprint %s, and the checkpoint of step %d is inside an epoch of %d rows, fingerprint %s; restore the data, or resume from a checkpoint at the end of an epoch%s",
			fresh.Rows, fresh.Data, now.Step, now.Rows, now.Data, end)
	case gone != "" && less:
		r.Warn("data.hosts: each: the training continues with less data: " + gone)
	}
	return nil
}

// lastEndOf is lastEnd of a checkpoint on the host of rank 0: other hosts may lack the others.
func (r renewing) lastEndOf(c *checkpoint.Checkpoint) (string, error) {
	b, err := collective.BroadcastBytes(r.Comm, []byte(lastEnd(c.Dir())), 0, maxBrief)
	return string(b), err
}

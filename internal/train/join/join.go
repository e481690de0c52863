package join

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/jsonl"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/data/stream"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
)

// Config configures a join.
type Config struct {
	Impressions, Feedback []string // folders, globs or topics
	Out, State            string   // folders of samples and of the state
	On                    [2]Fields
	Window, Delay         time.Duration
	Early                 bool

	Follow bool          // wait for new records; otherwise end when there are none
	Poll   time.Duration // between two looks
	Idle   time.Duration // without new records, after which a source does not hold up the others; 0: never
	Ahead  time.Duration // of the clock, by which the time of a record may be
	Lost   string        // schema.LostStop or LostSkip

	Warn   func(line string)
	Commit func(Status) // called after each commit; nil: not
}

// Sides of a join.
const (
	impressions = iota
	feedbacks
)

var sideNames = [2]string{"impressions", "feedback"}

// Counts are the numbers of records since the state began.
type Counts struct {
	Impressions int64 `json:"impressions"`
	Feedback    int64 `json:"feedback"`
	Samples     int64 `json:"samples"`
	Positives   int64 `json:"positives"`
	Duplicates  int64 `json:"duplicates"` // impressions with the key of an open one
	Repeated    int64 `json:"repeated"`   // feedback about an impression that has feedback

	LateImpressions int64 `json:"late_impressions"`
	LateFeedback    int64 `json:"late_feedback"`
	Unmatched       int64 `json:"unmatched"` // feedback without impression
	Bad             int64 `json:"bad"`       // records that cannot be used
	BadFiles        int64 `json:"bad_files"`
}

// Rejected returns the number of records that are in the folder of rejected ones.
func (c *Counts) Rejected() int64 {
	return c.LateImpressions + c.LateFeedback + c.Unmatched + c.Bad + c.BadFiles
}

// Status is the state of a join at a commit. status.json of the state directory contains the last one.
type Status struct {
	Counts
	Commits   int64      `json:"commits"`
	Open      int        `json:"open"`
	Held      int        `json:"held"` // feedback that waits for its impression
	Watermark *time.Time `json:"watermark,omitempty"`
	Newest    *time.Time `json:"event_time,omitempty"` // of the samples that have been written
	Time      time.Time  `json:"time"`                 // of the commit
	Sources   []Source   `json:"sources"`
	Ended     bool       `json:"ended,omitempty"`
}

// commit is the durable state beside the records in the log.
type commit struct {
	Number    int64             `json:"number"`
	Settings  settings          `json:"settings"`
	Positions []stream.Position `json:"positions"` // by input
	Formats   [2]*schema.Source `json:"formats"`
	Sources   []Source          `json:"sources"`
	Watermark int64             `json:"watermark"`
	Newest    int64             `json:"newest"`
	Counts    `json:"counts"`
	Ended     bool `json:"ended,omitempty"`
}

// settings are those that a state keeps for its life.
type settings struct {
	Inputs [2][]string `json:"inputs"`
	On     [2]Fields   `json:"on"`
	Window int64       `json:"window"`
	Early  bool        `json:"early,omitempty"`
	Out    string      `json:"out"`
}

// joiner runs a join.
type joiner struct {
	Config
	commit
	machine  *Machine
	log      *stateLog
	samples  output
	rejected output
	inputs   []*input
	label    []byte // its name, JSON

	adding  bool     // the record of a Sample may not be in the log yet
	pending []Sample // while adding
	fault   error    // of an Output method
	line    []byte
	value   []byte
	spans   []string // entries of the files of spans that the next commit needs
	dirty   bool     // there is something to commit
}

// Run joins until the inputs end, or ctx does, and returns the state of the last commit.
func Run(ctx context.Context, c Config) (s Status, err error) {
	j := &joiner{Config: c, samples: output{dir: c.Out}, rejected: output{dir: filepath.Join(c.State, "rejected")}}
	if j.label, err = jsonl.AppendString(nil, []byte(c.On[impressions].Label)); err != nil {
		return s, fmt.Errorf("the name of the label %w", err)
	}
	if err := os.MkdirAll(c.State, 0o755); err != nil {
		return s, err
	}
	unlock, err := rundir.Lock(c.State)
	if errors.Is(err, rundir.ErrInUse) {
		return s, fmt.Errorf("%s is in use by another join: end it, or give this one a state directory and a folder of samples of its own", c.State)
	}
	if err != nil {
		return s, err
	}
	defer unlock()
	defer j.close()
	if err = j.restore(); err == nil && j.Ended {
		err = j.finish()
	} else if err == nil {
		err = j.run(ctx)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil // what is not committed is read again
	}
	return j.status(), err
}

func (j *joiner) close() {
	j.samples.close()
	j.rejected.close()
	for _, in := range j.inputs {
		in.close()
	}
	if j.log != nil {
		j.log.close()
	}
}

// restore continues the state of the state directory, or begins one.
func (j *joiner) restore() (err error) {
	rules := Rules{Window: j.Window.Milliseconds(), Delay: j.Delay.Milliseconds(), Early: j.Early}
	j.machine = NewMachine(rules, discard{})
	own := settings{Inputs: [2][]string{j.Impressions, j.Feedback}, On: j.On, Window: rules.Window, Early: j.Early, Out: j.Out}
	fresh := false
	j.log, fresh, err = openLog(j.State, restored{j.machine.restore, func(b []byte) error {
		j.commit = commit{}
		if err := json.Unmarshal(b, &j.commit); err != nil {
			return fmt.Errorf("%w: %w", err, errDamaged)
		}
		j.machine.sources = slices.Clone(j.Sources)
		j.machine.reach(j.Watermark)
		return nil
	}})
	if err != nil {
		return err
	}
	if fresh {
		if err := j.samples.empty(); err != nil {
			return err
		}
		j.commit = commit{Settings: own, Watermark: Never, Newest: Never}
	} else if err := j.Settings.differ(own); err != nil {
		return fmt.Errorf("%s: %w", j.State, err)
	}
	for _, o := range []*output{&j.samples, &j.rejected} {
		if err := o.settle(j.Number); err != nil {
			return err
		}
	}
	j.machine.out = j
	if err := j.open(); err != nil {
		return err
	}
	if fresh {
		return j.log.begin(j.encode())
	}
	return nil
}

// differ returns the error for a state that was begun with other settings.
func (s *settings) differ(now settings) error {
	for _, x := range []struct{ flag, was, is string }{
		{"impressions", fmt.Sprint(s.Inputs[0]), fmt.Sprint(now.Inputs[0])},
		{"feedback", fmt.Sprint(s.Inputs[1]), fmt.Sprint(now.Inputs[1])},
		{"out", s.Out, now.Out},
		{"key, -time, -label or -value", fmt.Sprint(s.On), fmt.Sprint(now.On)},
		{"window", fmt.Sprint(time.Duration(s.Window) * time.Millisecond), fmt.Sprint(time.Duration(now.Window) * time.Millisecond)},
		{"emit", fmt.Sprint("early ", s.Early), fmt.Sprint("early ", now.Early)},
	} {
		if x.was != x.is {
			return fmt.Errorf("the state was begun with another -%s: %s, now: %s; give the old value, or another -state and -out", x.flag, x.was, x.is)
		}
	}
	return nil
}

// discard is the output while a state is restored.
type discard struct{}

func (discard) Sample(Sample) {}
func (discard) Unmatched(Ref) {}

// encode returns the commit as JSON.
func (j *joiner) encode() []byte {
	j.Positions = j.Positions[:0]
	for _, in := range j.inputs {
		at := in.at.Clone()
		at.Span, at.Parts = nil, nil // they have been read
		j.Positions = append(j.Positions, at)
	}
	j.Sources, j.Watermark = j.machine.sources, j.machine.watermark
	b, err := json.Marshal(&j.commit)
	if err != nil {
		panic(err) // it has no value that JSON cannot hold
	}
	return b
}

// run reads what is new, until the inputs end.
func (j *joiner) run(ctx context.Context) error {
	for {
		news, err := j.step(ctx)
		if err != nil {
			return err
		}
		j.machine.Advance()
		j.Ended = !slices.ContainsFunc(j.inputs, func(in *input) bool { return !in.ended() })
		if err := cmp.Or(j.fault, j.save()); err != nil {
			return err
		}
		if j.Ended {
			return j.finish()
		}
		if news {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(j.Poll):
		}
	}
}

// step reads one span, of the input whose watermark is least of those that have one.
func (j *joiner) step(ctx context.Context) (news bool, err error) {
	order := slices.Clone(j.inputs)
	slices.SortStableFunc(order, func(a, b *input) int { return cmp.Compare(a.reached(), b.reached()) })
	for _, in := range order {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if news, err = in.read(ctx); news || err != nil {
			return news, err
		}
	}
	return false, nil
}

// save commits, if there is something to commit.
func (j *joiner) save() error {
	if !j.dirty && !j.Ended && j.machine.watermark == j.Watermark {
		return nil
	}
	j.Number++
	some, err := j.samples.sync()
	if err != nil {
		return err
	}
	letters, err := j.rejected.sync()
	if err != nil {
		return err
	}
	for _, in := range j.inputs {
		if err := in.log(); err != nil {
			return err
		}
	}
	if err := j.log.commit(j.encode(), j.machine.watermark, j.machine.rules.Window); err != nil {
		return err
	}
	if some {
		err = j.samples.publish(j.Number)
	}
	if letters {
		err = errors.Join(err, j.rejected.publish(j.Number))
	}
	if err != nil {
		return err
	}
	j.dirty = false
	s := j.status()
	if j.Config.Commit != nil {
		j.Config.Commit(s)
	}
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return rundir.WriteFile(j.State, StatusFile, append(b, '\n'))
}

// StatusFile is the name of the file with the Status of the last commit.
const StatusFile = "status.json"

// finish marks the end of the samples, for a training that follows them.
func (j *joiner) finish() error {
	if err := rundir.WriteFile(j.Out, schema.Follow{On: true}.Filled().Mark, nil); err != nil {
		return err
	}
	return syncFolder(j.Out)
}

func (j *joiner) status() Status {
	s := Status{Counts: j.Counts, Commits: j.Number, Sources: slices.Clone(j.Sources), Ended: j.Ended, Time: time.Now()}
	if j.machine != nil {
		s.Open, s.Held = j.machine.Open()
	}
	s.Watermark, s.Newest = timeOf(j.Watermark), timeOf(j.Newest)
	return s
}

func timeOf(millis int64) *time.Time {
	if millis == Never || millis == Always {
		return nil
	}
	t := time.UnixMilli(millis).UTC()
	return &t
}

// add adds a record of one side.
func (j *joiner) add(side, source int, e *event) error {
	var outcome Outcome
	j.adding = true
	ref := j.log.next()
	if side == impressions {
		j.Counts.Impressions++
		outcome = j.machine.Impression(source, e.key, e.time, ref)
	} else {
		j.Counts.Feedback++
		outcome = j.machine.Feedback(source, e.key, e.time, ref)
	}
	j.adding = false
	err := error(nil)
	switch {
	case outcome == Opened:
		err = j.log.impression(e.key, e.time, e.object)
	case outcome == Matched || outcome == Held:
		err = j.log.feedback(e.key, e.time, e.value, e.object)
	case outcome == Duplicate:
		j.Duplicates++
	case outcome == Repeated:
		j.Repeated++
	case side == impressions:
		j.LateImpressions++
		err = j.reject(side, "late", "", e.object)
	default:
		j.LateFeedback++
		err = j.reject(side, "late", "", e.object)
	}
	for _, s := range j.pending {
		err = cmp.Or(err, j.write(s))
	}
	j.pending = j.pending[:0]
	return err
}

// Sample is called by the machine.
func (j *joiner) Sample(s Sample) {
	if j.adding {
		j.pending = append(j.pending, s)
	} else if j.fault == nil {
		j.fault = j.write(s)
	}
}

// write writes a sample.
func (j *joiner) write(s Sample) error {
	j.value = append(j.value[:0], '0')
	if s.Feedback != 0 {
		value, _, err := j.log.read(s.Feedback)
		if err != nil {
			return err
		}
		j.value = append(j.value[:0], value...)
		j.Positives++
	}
	_, object, err := j.log.read(s.Impression)
	if err != nil {
		return err
	}
	out, err := j.samples.writer(j.Number + 1)
	if err != nil {
		return err
	}
	j.line = appendSample(j.line[:0], object, j.label, j.value)
	j.Samples, j.Newest, j.dirty = j.Samples+1, max(j.Newest, s.Time), true
	_, err = out.Write(j.line)
	return err
}

// Unmatched is called by the machine.
func (j *joiner) Unmatched(ref Ref) {
	if j.fault != nil {
		return
	}
	_, object, err := j.log.read(ref)
	if err == nil {
		j.Counts.Unmatched++
		err = j.reject(feedbacks, "no impression", "", bytes.Clone(object))
	}
	j.fault = err
}

// reject writes a record that is not used to the folder of rejected ones.
func (j *joiner) reject(side int, reason, place string, object []byte) error {
	out, err := j.rejected.writer(j.Number + 1)
	if err != nil {
		return err
	}
	b, err := json.Marshal(struct {
		Side   string          `json:"side"`
		Reason string          `json:"reason"`
		Place  string          `json:"place,omitempty"`
		Record json.RawMessage `json:"record,omitempty"`
	}{sideNames[side], reason, place, nil})
	if err != nil {
		return err
	}
	if len(object) > 0 { // not by Marshal, which rejects NaN
		b = append(append(append(b[:len(b)-1], `,"record":`...), object...), '}')
	}
	j.dirty = true
	_, err = out.Write(append(b, '\n'))
	return err
}

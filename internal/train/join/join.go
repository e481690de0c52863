package join

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/wdlrun/wdlrun/internal/data/jsonl"
	"github.com/wdlrun/wdlrun/internal/data/kafka"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
)

// Run joins until the inputs end, or ctx does, and returns the state of the last commit.
func Run(ctx context.Context, c Config) (s Status, err error) {
	j := &joiner{Config: c, samples: output{dir: c.Out}, rejected: output{dir: filepath.Join(c.State, "rejected")}, late: output{dir: c.Late}}
	if j.label, err = jsonl.AppendString(nil, []byte(c.On[impressions].Label)); err != nil {
		return s, fmt.Errorf("the name of the label %w", err)
	}
	if err := j.inputsExist(); err != nil {
		return s, err
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
	if err = j.restore(ctx); err == nil {
		ended, before := j.Ended, j.Counts
		if err = j.run(ctx); err == nil {
			j.remark(ended && j.Counts == before)
		}
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil // what is not committed is read again
	}
	return j.status(), err
}

func (j *joiner) close() {
	j.samples.close()
	j.rejected.close()
	j.late.close()
	for _, in := range j.inputs {
		in.close()
	}
	if j.log != nil {
		j.log.close()
	}
}

// restore continues the state of the state directory, or begins one.
func (j *joiner) restore(ctx context.Context) (err error) {
	rules := Rules{Window: j.Window.Milliseconds(), Delay: j.Delay.Milliseconds(), Early: j.Early}
	j.machine = NewMachine(rules, discard{})
	own := settings{Inputs: [2][]string{j.Impressions, j.Feedback}, On: j.On, Window: rules.Window, Early: j.Early, Out: j.Out, Late: j.Late}
	fresh := false
	j.log, fresh, err = openLog(j.State, restored{j.machine.restore, func(b []byte) error {
		j.commit = commit{}
		if err := json.Unmarshal(b, &j.commit); err != nil {
			return fmt.Errorf("%w: %w", err, errDamaged)
		}
		j.machine.sources, j.machine.repeated = slices.Clone(j.Sources), j.Repeated
		j.machine.reach(j.Watermark)
		return nil
	}})
	if err != nil {
		return err
	}
	if fresh {
		j.commit = commit{ID: rand.Text(), Settings: own, Watermark: Never, Newest: Never}
		if err := cmp.Or(j.topics(), j.samples.empty()); err != nil {
			return err
		}
	} else if err := j.Settings.differ(own); err != nil {
		if !j.unused() {
			return fmt.Errorf("%s: %w; give the old value, or another -state and -out", j.State, err)
		}
		j.Warn(fmt.Sprintf("%s: %v; it has no samples, and is begun again", j.State, err))
		if err := j.forget(); err != nil {
			return err
		}
		return j.restore(ctx)
	}
	if err := j.topics(); err != nil {
		return err
	}
	for _, o := range j.outputs() {
		if err := o.finishCommit(ctx, j.Number); err != nil {
			return err
		}
	}
	j.machine.out = j
	if err := j.reopenEnded(); err != nil {
		return err
	}
	if err := j.open(); err != nil {
		return err
	}
	if fresh {
		return j.log.begin(j.encode())
	}
	return nil
}

// outputs returns the outputs that are used.
func (j *joiner) outputs() []*output {
	all := []*output{&j.samples, &j.rejected}
	if j.Late != "" {
		all = append(all, &j.late)
	}
	return all
}

// topics makes the outputs that are addresses of topics write to them.
func (j *joiner) topics() error {
	for _, x := range []struct {
		what, to string
		o        *output
	}{{"samples", j.Out, &j.samples}, {"late", j.Late, &j.late}} {
		if !kafka.IsTopic(x.to) {
			continue
		}
		a, err := kafka.ParseAddress(x.to)
		if err != nil {
			return err
		}
		*x.o = output{dir: filepath.Join(j.State, x.what), topic: &topic{address: a, name: "wdlrun-join-" + j.ID + "-" + x.what, warn: j.Warn}}
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
	j.Sources, j.Watermark, j.Repeated = j.machine.sources, j.machine.watermark, j.machine.repeated
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
		if err := cmp.Or(j.fault, j.save(ctx)); err != nil {
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
func (j *joiner) save(ctx context.Context) error {
	if !j.dirty && !j.Ended && j.machine.watermark == j.Watermark {
		return nil
	}
	j.Number++
	var written []*output
	for _, o := range j.outputs() {
		some, err := o.sync()
		if err != nil {
			return err
		}
		if some {
			written = append(written, o)
		}
	}
	for _, in := range j.inputs {
		if err := in.log(); err != nil {
			return err
		}
	}
	if err := j.log.commit(j.encode(), j.machine.watermark, j.machine.rules.Window); err != nil {
		return err
	}
	for _, o := range written {
		if err := o.publish(ctx, j.Number); err != nil {
			return err
		}
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

// finish marks the end of the samples, for a training that follows them.
func (j *joiner) finish() error {
	if j.samples.topic != nil {
		return nil
	}
	if err := rundir.WriteFile(j.Out, schema.Follow{On: true}.Filled().Mark, nil); err != nil {
		return err
	}
	return syncFolder(j.Out)
}

func (j *joiner) status() Status {
	if j.machine != nil {
		j.Repeated = j.machine.repeated
	}
	s := Status{Counts: j.Counts, Commits: j.Number, Sources: slices.Clone(j.Sources), Ended: j.Ended, Time: time.Now()}
	for _, in := range j.inputs {
		for _, lag := range in.feed.Lags() {
			s.Sources[in.sources[fmt.Sprintf("%s/%d", lag.Topic, lag.Number)]].Behind = lag.Records
		}
	}
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

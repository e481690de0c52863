package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/sparse"
)

// taking begins a training with the model of a source.
type taking struct{ *run }

// openSource opens the checkpoint of a source; "": none.
func openSource(dir string) (*checkpoint.Checkpoint, error) {
	if dir == "" {
		return nil, nil
	}
	c, err := checkpoint.Open(dir)
	if err == nil && incomplete(c) {
		err = errors.New("parts of it are on other hosts: wdlrun -H HOSTS ckpt gather collects them")
	}
	if err != nil {
		return nil, permanent(fmt.Errorf("from %s: %w", dir, err))
	}
	return c, nil
}

// encoderOf returns the encoder of a checkpoint.
func encoderOf(c *checkpoint.Checkpoint) (*encode.Encoder, error) {
	b, err := save.Read(c, save.SectionEncoder)
	if err != nil {
		return nil, err
	}
	return encode.LoadEncoder(b)
}

// findSource verifies the model of a run directory or checkpoint and returns its checkpoint: the
// best epoch if early stopping chose one.
func findSource(ctx context.Context, path string, warn func(line string)) (string, error) {
	t, err := OpenTrained(ctx, path, warn)
	if err == nil {
		err = checkVersion(t.Checkpoint)
	}
	if err != nil {
		return "", permanent(fmt.Errorf("from %s: %w", path, err))
	}
	return t.Checkpoint.Dir(), nil
}

// take begins the training with the model of the source, and prints what it took. Steps and
// samples continue to count, so that optimizers do, and epochs start at the first.
func (r taking) take() error {
	c := &r.cursor
	var was cursor
	if err := save.ReadJSON(r.source, save.SectionCursor, &was); err != nil {
		return err
	}
	from, now, err := r.origin()
	if err != nil {
		return err
	}
	m := step.NewMatch(r.config, now, from)
	if r.opt.Day != nil {
		from.Retire = r.opt.Day.Retire
	}
	r.source.Watch(r.shown.Advance)
	taken, err := step.Take(r.trainer, from, m)
	if err != nil {
		return err
	}
	c.Step, c.Samples, c.Began, c.Divergence = was.Step, was.Samples, was.Step, was.Divergence
	rows := append(taken.Rows, int64(taken.Retired))
	if err := collective.AllReduce(r.comm, rows, collective.Sum); err != nil {
		return err
	}
	retired := rows[len(rows)-1]
	taken.Rows = rows[:len(rows)-1]
	for _, rows := range taken.Rows {
		c.Kept += rows
	}
	for _, line := range r.tookLines(from, now, m, taken) {
		r.say(line)
	}
	if retired > 0 {
		r.say(fmt.Sprintf("  train.retain: %s of tables removed, last seen more than %d days before %s", plural.Of(int(retired), "row"), r.config.Train.Retain.Days, r.opt.Day.Day))
	}
	return nil
}

// describe prints what the training would take, without reading rows.
func (r taking) describe() error {
	from, now, err := r.origin()
	if err != nil {
		return err
	}
	for _, line := range r.tookLines(from, now, step.NewMatch(r.config, now, from), step.Taken{}) {
		r.say(line)
	}
	return nil
}

// origin returns the source and the layout of the new model.
func (r taking) origin() (from step.Origin, now layout.Layout, err error) {
	was, err := save.ReadConfig(r.source)
	if err != nil {
		return from, now, err
	}
	was.Fill()
	same := func(name string) bool { _, same := r.in.Same[name]; return same }
	from = step.Origin{Checkpoint: r.source, Layout: layout.New(was, r.in.From.Sparse(), r.in.From.Dense()), Same: same}
	return from, layout.New(r.config, r.in.Encoder.Sparse(), r.in.Encoder.Dense()), nil
}

// tookLines describes what a training takes from a source. Without rows, they have not been read.
func (r taking) tookLines(from step.Origin, now layout.Layout, m step.Match, taken step.Taken) (lines []string) {
	lines = append(lines, fmt.Sprintf("the training begins with the model of %s:", from.Checkpoint.Dir()))
	add := func(name, format string, args ...any) {
		lines = append(lines, fmt.Sprintf("  %s: ", name)+fmt.Sprintf(format, args...))
	}
	for i, t := range now.Tables {
		at := slices.IndexFunc(from.Layout.Tables, func(o sparse.Table) bool { return o.Name == t.Name })
		switch {
		case m.Tables[i] >= 0 && taken.Rows == nil:
			add("table "+t.Name, "rows kept")
		case m.Tables[i] >= 0:
			add("table "+t.Name, "%d rows kept", taken.Rows[i])
		case at >= 0:
			add("table "+t.Name, "new, because its columns or optimizers differ from those of the table with its name")
		}
	}
	for _, f := range now.Features {
		switch g, same := r.in.Same[f.Name]; {
		case !same:
			add(f.Name, "new")
		case g.Words > 0:
			add(f.Name, "kept, %d values and %d new", g.Words, g.New)
		}
	}
	for _, name := range now.Dense {
		if _, same := r.in.Same[name]; !same {
			add(name, "new")
		}
	}
	for _, name := range dropped(from.Layout, now) {
		add(name, "dropped")
	}
	n := 0
	for _, c := range m.Columns {
		if c < 0 {
			n++
		}
	}
	if n > 0 {
		add("first layer", "%d of %d input columns new (zero)", n, now.Width)
	}
	for _, name := range taken.Own {
		add(name, "new")
	}
	return lines
}

// dropped returns the features of a source that a layout does not have.
func dropped(was, now layout.Layout) (names []string) {
	for _, f := range was.Features {
		if !slices.ContainsFunc(now.Features, func(o layout.Feature) bool { return o.Name == f.Name }) {
			names = append(names, f.Name)
		}
	}
	for _, name := range was.Dense {
		if !slices.Contains(now.Dense, name) {
			names = append(names, name)
		}
	}
	return names
}

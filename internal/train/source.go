package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/encode"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train/convert"
	"github.com/wdlrun/wdlrun/internal/train/report"
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
	e, err := encode.LoadEncoder(b)
	if err != nil {
		return nil, permanent(fmt.Errorf("from %s: %w", c.Dir(), err))
	}
	return e, nil
}

// folderSource is the folder of a run directory in which a converted source is stored until the
// training has begun.
const folderSource = "source"

// convertSource writes a source that is no run and no checkpoint as a checkpoint in a folder. Without
// rows, its tables are empty, and matches that have to be confirmed are printed rather than refused.
func convertSource(ctx context.Context, path, to string, c *config.Config, rows bool, say func(line string)) (string, error) {
	m, err := convert.Open(path, c)
	if err != nil {
		return "", permanent(err)
	}
	defer m.Close()
	switch {
	case m.Guess != "" && rows:
		return "", permanent(fmt.Errorf("from %s: these arrays fit by their shapes; if they are the right ones, add this to the configuration:\n\n%s", path, m.Guess))
	case m.Guess != "":
		say("these arrays fit by their shapes; if they are the right ones, add this to the configuration:\n\n" + m.Guess)
	}
	dir, err := m.Write(ctx, to, rows)
	return dir, permanent(err)
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

// loadSource begins the training with the model of the source, and prints what it took. Steps and
// samples continue to count, so that optimizers do, unless the optimizers are reset. Epochs start
// at the first.
func (r taking) loadSource() error {
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
	if err := r.checkWidths(from, now, m); err != nil {
		return err
	}
	if r.opt.Day != nil {
		from.Retire = r.opt.Day.Retire
	}
	from.Before = was.Refit.steps()
	r.source.Watch(r.shown.Advance)
	from.Loaded = r.judged
	taken, err := step.Take(r.trainer, from, m)
	if r.judged != nil {
		err = errors.Join(err, r.judged.Close())
		r.judged = nil
	}
	if err != nil {
		return err
	}
	if !from.Reset {
		c.Step, c.Samples, c.Divergence = c.Step+was.modelSteps(), c.Samples+was.Samples-was.Refit.samples(), was.Divergence
		c.Began = c.Step
	}
	if r.config.Train.Refit {
		c.Source = r.source.Dir()
	}
	rows := append(taken.Rows, int64(taken.Retired))
	if err := collective.AllReduce(r.Comm, rows, collective.Sum); err != nil {
		return err
	}
	retired := rows[len(rows)-1]
	c.Retired = retired
	taken.Rows = rows[:len(rows)-1]
	for _, rows := range taken.Rows {
		c.Kept += rows
	}
	say := r.warned.once(r.Say)
	for _, line := range r.changed(r.tookLines(from, now, m, taken)) {
		say(line)
	}
	r.warnOfRefit(&was)
	if retired > 0 {
		say(fmt.Sprintf("  train.retain: %s of tables removed, last seen more than %d days before %s", plural.Of(int(retired), "row"), r.config.Train.Retain.Days, r.opt.Day.Day))
	}
	if dir := filepath.Join(r.runDir, folderSource); r.Comm.Rank() == 0 && filepath.Dir(r.source.Dir()) == dir && (c.Refit != nil || !r.config.Train.Refit) {
		return os.RemoveAll(dir) // all ranks have read it
	}
	return nil
}

// warnOfRefit warns if the second training of the source, whose cursor is was, has trained on the validation rows.
func (r taking) warnOfRefit(was *cursor) {
	if was.Refit == nil || r.in.Valid == nil || r.in.Valid != r.in.Train || was.TrainData != data.IdentityOf(r.in.Valid) || r.config.Train.Gate.Metric != "" {
		return // a gate has its own warning
	}
	r.Warn(fmt.Sprintf("the model of %s was also trained on the validation rows (train.refit): its metrics on them are too good; train on newer data, or name other files in data.valid", r.source.Dir()))
}

// maxQuiet is the number of lines about parts that are kept as they are from which their sum is printed.
const maxQuiet = 8

// summed replaces lines of tookLines about tables and features that are kept as they are by one, if there
// are many of them.
func summed(lines []string, kept int64) []string {
	tables, features := 0, 0
	short := slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		switch {
		case strings.HasPrefix(line, "  table ") && strings.HasSuffix(line, " rows kept"):
			tables++
		case strings.Contains(line, ": kept, ") && strings.HasSuffix(line, " and 0 new"):
			features++
		default:
			return false
		}
		return true
	})
	if tables+features <= maxQuiet {
		return lines
	}
	line := fmt.Sprintf("  kept as they are: %s", plural.Of(tables, "table"))
	if features > 0 {
		line += " and the vocabularies of " + plural.Of(features, "feature")
	}
	return append(short, fmt.Sprintf("%s; all tables that are kept have %s", line, plural.Of(int(kept), "row")))
}

// changed returns the lines of tookLines that a training prints. With train -by they are not about what
// is kept, which is nearly everything.
func (r taking) changed(lines []string) []string {
	if r.opt.Day == nil {
		return summed(lines, r.cursor.Kept)
	}
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.Contains(line, " kept") && !strings.HasSuffix(line, " dropped") && !strings.HasPrefix(line, "  layers: ") && (!strings.HasSuffix(line, " new") || strings.HasSuffix(line, " and 0 new"))
	})
	if len(lines) == 1 {
		return nil // only the heading
	}
	return lines
}

// describe prints what the training would take, without reading rows.
func (r taking) describe() error {
	from, now, err := r.origin()
	if err != nil {
		return err
	}
	m := step.NewMatch(r.config, now, from)
	if err := r.checkWidths(from, now, m); err != nil {
		return err
	}
	rows, sum := sourceRows(from, m)
	for _, line := range r.tookLines(from, now, m, step.Taken{Rows: rows}) {
		r.Say(line)
	}
	if sum > 0 {
		r.Say(fmt.Sprintf("  the plan counts the rows that this data uses; of the %d rows that are kept, add those that it does not use", sum))
	}
	return nil
}

// sourceRows returns the rows that the source has of each table of the model, from the result of its
// training, and their sum; nil if that is not known.
func sourceRows(from step.Origin, m step.Match) (rows []int64, sum int64) {
	b, err := regular.ReadFile(filepath.Join(runOfCheckpoint(from.Checkpoint.Dir()), rundir.FileResult), rundir.MaxFile)
	var was report.Result
	if err != nil || json.Unmarshal(b, &was) != nil {
		return nil, 0
	}
	rows = make([]int64, len(m.Tables))
	for i, at := range m.Tables {
		for k := range was.Tables {
			if at >= 0 && was.Tables[k].Name == from.Layout.Tables[at].Name {
				rows[i] = was.Tables[k].Rows
				sum += rows[i]
			}
		}
	}
	return rows, sum
}

// origin returns the source and the layout of the new model.
func (r taking) origin() (from step.Origin, now layout.Layout, err error) {
	was, err := save.ReadConfig(r.source)
	if err != nil {
		return from, now, err
	}
	was.Fill()
	same := func(name string) (string, bool) { g, same := r.in.Same[name]; return g.Was, same }
	from = step.Origin{
		Checkpoint: r.source, Layout: layout.New(was, r.in.From.Sparse(), r.in.From.Dense()), Same: same,
		Reset: r.config.Train.From.Optimizer == "reset", Tables: isOtherNetwork(was, r.config),
	}
	if !from.Reset {
		from.ConfigOf = save.FilledConfig
	}
	if o, err := convert.ReadOrigin(r.source); err != nil || o != nil {
		from.Reset, from.ConfigOf = true, nil // it has no states
		from.Tables = from.Tables || o != nil && !o.Statistics && r.config.Train.From.Allows("network")
		return from, layout.New(r.config, r.in.Encoder.Sparse(), r.in.Encoder.Dense()), err
	}
	return from, layout.New(r.config, r.in.Encoder.Sparse(), r.in.Encoder.Dense()), nil
}

// checkWidths returns an error if the embeddings of a kept table have another width than in the
// source, unless the configuration allows it.
func (r taking) checkWidths(from step.Origin, now layout.Layout, m step.Match) error {
	if r.config.Train.From.Allows("dim") {
		return nil
	}
	for i, t := range now.Tables {
		if m.Tables[i] < 0 {
			continue
		}
		for _, p := range t.Parts {
			at := slices.IndexFunc(from.Layout.Tables[m.Tables[i]].Parts, func(o sparse.Part) bool { return o.Name == p.Name })
			if at < 0 {
				continue
			}
			if was := from.Layout.Tables[m.Tables[i]].Parts[at].Dim; was != p.Dim {
				return permanent(fmt.Errorf("from %s: the embeddings of table %s have %d values there and %d here: restore embedding_dim or tables[].dim, or let them start again: -set train.from.allow=[dim]", from.Checkpoint.Dir(), t.Name, was, p.Dim))
			}
		}
	}
	return nil
}

// tookLines describes what a training takes from a source. Without rows, they have not been read.
func (r taking) tookLines(from step.Origin, now layout.Layout, m step.Match, taken step.Taken) (lines []string) {
	lines = append(lines, fmt.Sprintf("the training begins with the model of %s:", from.Checkpoint.Dir()))
	if o, err := convert.ReadOrigin(from.Checkpoint); err == nil && o != nil {
		lines[0] = fmt.Sprintf("the training begins with the model of %s:", o.Path)
		for _, line := range o.Lines {
			lines = append(lines, "  "+line)
		}
		if names := r.refitted(); !o.Statistics && names != "" {
			lines = append(lines, "  statistics of the training data, because arrays have none: "+names)
		}
	}
	add := func(name, format string, args ...any) {
		lines = append(lines, fmt.Sprintf("  %s: ", name)+fmt.Sprintf(format, args...))
	}
	for i, t := range now.Tables {
		if m.Tables[i] < 0 {
			continue
		}
		count := "rows"
		if taken.Rows != nil {
			count = fmt.Sprintf("%d rows", taken.Rows[i])
		}
		add("table "+t.Name, "%s kept%s", count, newParts(from, t, m, i))
	}
	for _, f := range now.Features {
		switch g, same := r.in.Same[f.Name]; {
		case !same && r.in.Was(f.Name) != "":
			add(f.Name, "new, because its encoding differs")
		case !same:
			add(f.Name, "new")
		case g.Words > 0:
			add(f.Name, "kept%s, %d values and %d new", renamed(f.Name, g.Was), g.Words, g.New)
		case g.Was != f.Name:
			add(f.Name, "kept%s", renamed(f.Name, g.Was))
		}
	}
	for _, name := range now.Dense {
		switch g, same := r.in.Same[name]; {
		case !same && r.in.Was(name) != "":
			add(name, "new, because its encoding differs")
		case !same:
			add(name, "new")
		case g.Was != name:
			add(name, "kept%s", renamed(name, g.Was))
		}
	}
	for _, f := range r.config.Features {
		if r.in.Same[f.Name].Fresh {
			add(f.Name, "statistics of this data, because the training data of the model has no value of it")
		}
	}
	for _, name := range r.dropped(from.Layout) {
		add(name, "dropped")
	}
	for _, name := range r.droppedTables(from, m) {
		add("table "+name, "dropped: the features that used it have other tables")
	}
	return append(lines, r.layerLines(from, now, m, taken)...)
}

// refitted names the features whose keys or numbers depend on statistics.
func (r taking) refitted() string {
	var names []string
	for _, f := range r.config.Features {
		if slices.Contains([]string{"standardise", "quantile", "age", "rate"}, f.Encode) {
			names = append(names, f.Name)
		}
	}
	return strings.Join(names, ", ")
}

// layerLines describes what a training takes of the layers and the optimizers.
func (r taking) layerLines(from step.Origin, now layout.Layout, m step.Match, taken step.Taken) (lines []string) {
	if from.Tables {
		lines = append(lines, "  layers: new, by train.from.allow")
	} else {
		n := 0
		for _, c := range m.Columns {
			if c < 0 {
				n++
			}
		}
		if n > 0 {
			lines = append(lines, fmt.Sprintf("  first layer: %d of %d input columns new (zero)", n, now.Width))
		}
		lines = append(lines, r.namedLayers(from, now, m, taken.Own)...)
	}
	if from.Reset {
		lines = append(lines, "  optimizers: reset, steps count from 1")
	}
	return lines
}

// namedLayers names the layers that are new or dropped, and a new optimizer. own are the parameters that were found to
// be new; a plan does not look.
func (r taking) namedLayers(from step.Origin, now layout.Layout, m step.Match, own []string) (lines []string) {
	c, err := save.FilledConfig(r.source)
	if err != nil {
		return nil // it has been read before
	}
	is, err := step.Layers(r.config, now)
	was, fault := step.Layers(c, from.Layout)
	if err != nil || fault != nil {
		return nil // both models train
	}
	found, gone := m.Layers(is, was)
	for _, name := range own {
		if !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	for _, name := range found {
		lines = append(lines, fmt.Sprintf("  %s: new", name))
	}
	for _, name := range gone {
		lines = append(lines, fmt.Sprintf("  %s: dropped", name))
	}
	if kind := c.Train.Optimizer.Dense.Default().Kind; !from.Reset && kind != r.config.Train.Optimizer.Dense.Default().Kind {
		lines = append(lines, fmt.Sprintf("  layers: kept, the optimizer new, because it was %s", kind))
	}
	return lines
}

// newParts describes the parts of the rows of a table that the source does not have, or whose
// optimizer differs there.
func newParts(from step.Origin, t sparse.Table, m step.Match, i int) string {
	was, text := from.Layout.Tables[m.Tables[i]], ""
	if was.Name != t.Name {
		text = ", of table " + was.Name
	}
	for p, part := range t.Parts {
		switch at := m.Parts[i][p]; {
		case at < 0:
			text += ", " + part.Name + " new"
		case !from.Reset && was.Parts[at].Rule.Default().Kind != part.Rule.Default().Kind:
			text += ", the optimizer of " + part.Name + " new"
		}
	}
	for p, part := range was.Parts {
		if !slices.Contains(m.Parts[i], p) && !slices.ContainsFunc(t.Parts, func(x sparse.Part) bool { return x.Name == part.Name }) {
			text += ", " + part.Name + " dropped"
		}
	}
	return text
}

// droppedTables returns the tables of the source that nothing takes although a feature that used them is kept.
func (r taking) droppedTables(from step.Origin, m step.Match) (names []string) {
	kept := map[string]bool{}
	for name := range r.in.Same {
		kept[r.in.Same[name].Was] = true
	}
	for i, t := range from.Layout.Tables {
		used := slices.ContainsFunc(from.Layout.Features, func(f layout.Feature) bool { return f.Table == i && kept[f.Name] })
		if used && !slices.Contains(m.Tables, i) {
			names = append(names, t.Name)
		}
	}
	return names
}

func renamed(name, was string) string {
	if was == name {
		return ""
	}
	return " (was " + was + ")"
}

// dropped returns the features of the source that the model does not have.
func (r taking) dropped(was layout.Layout) (names []string) {
	kept := map[string]bool{}
	for name := range r.in.Same {
		kept[r.in.Same[name].Was] = true
	}
	for _, f := range r.config.Features { // one with another encoding is reported as new
		kept[r.in.Was(f.Name)] = true
	}
	for _, f := range was.Features {
		if !kept[f.Name] {
			names = append(names, f.Name)
		}
	}
	for _, name := range was.Dense {
		if !kept[name] {
			names = append(names, name)
		}
	}
	return names
}

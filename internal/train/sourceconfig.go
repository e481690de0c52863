package train

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/config/network"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/text/pattern"
	"github.com/wdlrun/wdlrun/internal/train/convert"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/save"
)

// sourceConfig returns the configuration of the model of a run directory, a checkpoint or an exported
// model. now, which may be nil, is the configuration of the training: arrays have no other.
func sourceConfig(path string, now *config.Config) (*config.Config, error) {
	if convert.Is(path) {
		m, err := convert.Open(path, now)
		if err != nil {
			return nil, err
		}
		defer m.Close()
		return m.Config(), nil
	}
	c, _, err := checkpoint.Resolve(path, checkConfig)
	if err != nil {
		return nil, fmt.Errorf("from: %w", rundir.Hint(err, path))
	}
	return save.ReadConfig(c)
}

// fitsSource returns an error if a training cannot begin with the model of a path. If an operation
// reads embeddings without weights, such as a factorization machine, it makes the embeddings of new
// tables start at zero, so that they do not change the scores of the model.
func fitsSource(path string, c *config.Config) error {
	if path == "" {
		return nil
	}
	was, err := sourceConfig(path, c)
	if err != nil {
		return err
	}
	was.Fill()
	var labels, layers []string
	for _, d := range config.Diff(was, c) {
		switch {
		case otherLabel().MatchString(d) && !(addedValues().MatchString(d) && addsValues(was, c)):
			labels = append(labels, d)
		case otherNetwork().MatchString(d):
			layers = append(layers, d)
		}
	}
	refuse := func(what string, lines []string) error {
		return fmt.Errorf("from %s: %s:\n  %s", path, what, strings.Join(lines, "\n  "))
	}
	_, missing := config.Renamed(was, c)
	switch {
	case len(labels) > 0:
		return refuse("its model predicts another label; restore these settings, or start a new training without -from; values may be added to label.positive and label.negative", labels)
	case len(layers) > 0 && !c.Train.From.Allows("network"):
		return refuse("its model is another network; restore these settings, start a new training without -from, or take only the tables: -set train.from.allow=[network]", layers)
	case len(missing) > 0:
		return fmt.Errorf("from %s: was: the source has no such feature for %s; its features are %s", path, strings.Join(missing, ", "), strings.Join(names(was.Features), ", "))
	}
	n, err := network.Nominal(c.Model)
	if err == nil && n.First(func(s network.Support) bool { return s.Unweighted }) != nil {
		startAtZero(c, was)
	}
	return err
}

// otherLabel matches differences of labels that both configurations have, and of the first label.
// Further labels may be added and removed.
var otherLabel = pattern.Lazy(`^(label|labels\[\d+\])\.(field|kind|loss|positive|negative|threshold):`)

// addedValues matches differences of the values of a label.
var addedValues = pattern.Lazy(`^(label|labels\[\d+\])\.(positive|negative):`)

// addsValues reports whether the labels of a configuration have the values of the one before and more: new data writes
// yes for 1.
func addsValues(was, now *config.Config) bool {
	before, all := input.SchemaOf(was), input.SchemaOf(now)
	old, labels := before.All(), all.All()
	within := func(some, more []string) bool {
		return !slices.ContainsFunc(some, func(v string) bool { return !slices.Contains(more, v) })
	}
	for i := range min(len(old), len(labels)) {
		a, b := &old[i], &labels[i]
		if !within(a.Positive, b.Positive) || !within(a.Negative, b.Negative) || len(a.Negative) == 0 && !slices.Equal(a.Positive, b.Positive) {
			return false
		}
	}
	return true
}

// otherNetwork matches the settings that decide what the layers mean.
var otherNetwork = pattern.Lazy(`^model\.(kind|wide|deep|activation|batch_norm):`)

// isOtherNetwork reports whether two configurations have layers of another meaning.
func isOtherNetwork(was, now *config.Config) bool {
	return slices.ContainsFunc(config.Diff(was, now), otherNetwork().MatchString)
}

func names(features []schema.Feature) (all []string) {
	for _, f := range features {
		all = append(all, f.Name)
	}
	return all
}

// startAtZero makes the embeddings of tables of which was has no feature start at zero.
func startAtZero(c, was *config.Config) {
	of, _ := config.Renamed(was, c)
	for _, t := range c.TablesInUse() {
		if slices.ContainsFunc(c.Features, func(f schema.Feature) bool { return f.Table == t.Name && of(f.Name) != "" }) || t.Deep == nil {
			continue
		}
		i := slices.IndexFunc(c.Tables, func(own config.Table) bool { return own.Name == t.Name })
		if i < 0 {
			c.Tables, i = append(c.Tables, t), len(c.Tables)
		}
		c.Tables[i].Init = config.Init{Kind: "zero"}
	}
}

// checkConfig returns an error if the configuration of a checkpoint cannot be read.
func checkConfig(c *checkpoint.Checkpoint) error {
	_, err := save.Read(c, save.SectionConfig)
	return err
}

package train

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/config/network"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train/save"
)

// sourceConfig returns the configuration of the model of a run directory or checkpoint.
func sourceConfig(path string) (*config.Config, error) {
	c, _, err := checkpoint.Resolve(path, checkConfig)
	if err != nil {
		return nil, fmt.Errorf("from: %w", rundir.ResumeHint(err, path))
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
	was, err := sourceConfig(path)
	if err != nil {
		return err
	}
	was.Fill()
	var faults []string
	for _, d := range config.Diff(was, c) {
		for _, prefix := range []string{"label.field:", "label.kind:", "label.loss:", "label.positive:", "label.negative:", "label.threshold:", "labels", "model.kind:", "model.wide:", "model.deep:", "model.activation:", "model.batch_norm:"} {
			if strings.HasPrefix(d, prefix) {
				faults = append(faults, d)
				break
			}
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("from %s: its model predicts another label or is another network; restore these settings, or start a new training without -from:\n  %s", path, strings.Join(faults, "\n  "))
	}
	n, err := network.Nominal(c.Model)
	if err == nil && n.First(func(s network.Support) bool { return s.Unweighted }) != nil {
		startAtZero(c, was)
	}
	return err
}

// startAtZero makes the embeddings of tables that was does not have start at zero.
func startAtZero(c, was *config.Config) {
	old := was.TablesInUse()
	for _, t := range c.TablesInUse() {
		if slices.ContainsFunc(old, func(o config.Table) bool { return o.Name == t.Name }) || t.Deep == nil {
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

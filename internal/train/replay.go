package train

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/model/slots"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/text/pattern"
	"github.com/wdlrun/wdlrun/internal/train/save"
)

// replay takes configuration and mode from the run to repeat.
func (o *Options) replay(size int) error {
	all, err := save.ReadModes(o.Replay)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replay: %s is not a run of steps that can leave microbatches out: %w; repeat other runs with: train -config %s",
			o.Replay, err, filepath.Join(o.Replay, rundir.FileConfig))
	}
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	m := all[0]
	if len(all) > 1 {
		return fmt.Errorf("replay: %s ran %v, and after step %d %v: only runs with a single mode can be replayed", o.Replay, m, all[1].From, all[1])
	}
	if m.WorldSize != size {
		return fmt.Errorf("replay: %s ran on %d ranks, here are %d: microbatches would be others; use -np %d", o.Replay, m.WorldSize, size, m.WorldSize)
	}
	if o.Tolerance.Mode, err = slots.ParseMode(m.Mode); err != nil {
		return fmt.Errorf("replay: %s: %w", filepath.Join(o.Replay, rundir.FileMode), err)
	}
	o.Tolerance.Backup, o.Tolerance.Auto = m.Backup, m.Auto
	o.Config, err = config.Load(filepath.Join(o.Replay, rundir.FileConfig))
	return err
}

// sameSteps matches the settings that do not affect steps. Mode and backups are recorded
// separately.
var sameSteps = pattern.Lazy(`^(data\.(train|test|follow)\b|train\.(mode|backup|checkpoint)\b|tables\[\d+\]\.tier\b)`)

// otherSteps lists the changed settings that make the steps of a resumed training differ.
func otherSteps(was, now *config.Config) (settings []string) {
	ends := func(c *config.Config) bool {
		return c.Train.Schedule.Kind == "linear" || c.Train.Schedule.Kind == "cosine"
	}
	for _, d := range config.Diff(was, now) {
		if last := strings.HasPrefix(d, "train.epochs:") && !ends(was) && !ends(now); !last && !sameSteps().MatchString(d) {
			settings = append(settings, d)
		}
	}
	return settings
}

// script reads the steps of the run to replay; without one it returns nil.
func script(dir string) ([]slots.Record, error) {
	if dir == "" {
		return nil, nil
	}
	records, err := save.ReadCommits(dir)
	if err != nil {
		return nil, err
	}
	if records[0].Step != 0 || len(records) == 1 {
		return nil, fmt.Errorf("replay: the log of %s begins after step %d and has %d steps: only runs from the very start can be replayed", dir, records[0].Step, len(records)-1)
	}
	return records[1:], nil
}

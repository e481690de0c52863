package train

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train"
)

// unfinished returns the newest run directory in a folder, if its training is of train -by and did not become the
// latest; "" otherwise. from is the run directory of the model.
func unfinished(out, from string) (dir string, about rundir.About) {
	dir, _ = newestRun(out)
	if dir == "" || dir == from || dir == rundir.LatestOf(out) {
		return "", about
	}
	about, err := rundir.ReadAbout(dir)
	if err != nil || about.Day == "" {
		return "", about
	}
	return dir, about
}

// differs returns why the training in a run directory cannot continue as the one on a partition by a command with
// some options; "" if it can.
func differs(ctx context.Context, dir string, about rundir.About, opt train.Options, d *dayOptions) (string, error) {
	from := ""
	if about.From != "" {
		from = filepath.Base(filepath.Dir(filepath.Dir(about.From)))
	}
	switch {
	case from != strings.TrimPrefix(filepath.Base(d.From), "."):
		return "it began with another model", nil
	case about.Mark != d.Mark || about.Content != "" && about.Content != d.Bytes():
		return "its files have changed", nil
	}
	opt.From, opt.Set, opt.Day = d.From, slices.Concat(opt.Set, d.Set), &d.Day
	c, err := train.OpenConfig(ctx, opt)
	if err != nil {
		return "", err
	}
	text, err := regular.ReadFile(filepath.Join(dir, rundir.FileConfig), config.MaxBytes)
	if err != nil {
		return "its configuration cannot be read", nil
	}
	if string(text) == string(c.YAML()) {
		return "", nil
	}
	why := "its settings have changed"
	if was, err := config.Parse(rundir.FileConfig, text); err == nil {
		why += ": " + strings.Join(config.Diff(was, c), ", ")
	}
	return why, nil
}

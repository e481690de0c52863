package train

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/train/walk"
)

// rest returns the newest run directory, if its training is of train -by and did not become the latest; ""
// otherwise.
func (w *walking) rest() (dir string, about rundir.About) {
	dir, _ = newestRun(w.opt.Out)
	if dir == "" || dir == w.from || dir == rundir.LatestOf(w.opt.Out) {
		return "", about
	}
	about, err := rundir.ReadAbout(dir)
	if err != nil || about.Day == "" {
		return "", about
	}
	return dir, about
}

// nameLeft prints a line about such a training, if no training of the plan continues it.
func (w *walking) nameLeft() {
	dir, about := w.rest()
	of := func(part walk.Partition) bool { return part.Day == about.Day }
	if dir == "" || len(w.plan.Next) > 0 && of(w.plan.Next[0]) || !slices.ContainsFunc(w.parts.All, of) {
		return
	}
	how := ""
	if w.ledger.Last(about.Day) != nil || slices.Contains(w.plan.Older, about.Day) {
		how = "; to continue it: -again " + about.Day
	}
	w.warn(fmt.Sprintf("%s: the training in %s did not become the latest and is left%s", w.plan.Name(about.Day), dir, how))
}

// unfinished returns the newest run directory, if its training is on the same partition, with the same model
// and configuration, and did not become the latest; "" otherwise. It prints which of these has changed.
func (w *walking) unfinished(d *dayOptions) (string, error) {
	dir, about := w.rest()
	if dir == "" || about.Day != d.Day.Day {
		return "", nil
	}
	why, err := w.differs(dir, about, d)
	if err != nil {
		return "", err
	}
	name := w.plan.Name(about.Day)
	if why != "" {
		w.warn(fmt.Sprintf("%s: the training in %s did not become the latest and is left: %s; a new one begins", name, dir, why))
		return "", nil
	}
	for range 100 { // its ranks end soon after their launcher
		if !rundir.Locked(dir) {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.warn(fmt.Sprintf("%s: the training in %s did not become the latest and continues", name, dir))
	return dir, nil
}

// differs returns why the training in a run directory cannot continue as the one on a partition; "" if it can.
func (w *walking) differs(dir string, about rundir.About, d *dayOptions) (string, error) {
	from := ""
	if about.From != "" {
		from = filepath.Base(filepath.Dir(filepath.Dir(about.From)))
	}
	switch {
	case from != strings.TrimPrefix(filepath.Base(w.from), "."):
		return "it began with another model", nil
	case about.Mark != d.Mark || about.Content != "" && about.Content != d.Bytes():
		return "its files have changed", nil
	}
	opt := w.opt
	opt.From, opt.Set, opt.Day = w.from, slices.Concat(w.opt.Set, d.Set), &d.Day
	c, err := train.OpenConfig(w.c.Context, opt)
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

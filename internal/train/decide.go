package train

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/model/copies"
	"github.com/wdlrun/wdlrun/internal/model/layout"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train/convert"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/internal/train/volumes"
)

// decision makes the brief on rank 0. It fills in the options that the user left open.
type decision struct {
	opt   *Options
	adapt func(*config.Config) error // changes the configuration for an evaluation; nil: a training
	size  int
	run   *run // of rank 0

	differ  map[string]bool        // run directories or checkpoints of which hosts have different parts
	from    *checkpoint.Checkpoint // to resume from; nil: none
	turn    *rundir.Turn           // of the run directory
	changed []string               // settings that affect steps and differ from the checkpoint's

	settings []string // all settings that differ from the checkpoint's, in words
}

// decide makes the brief.
func (d *decision) decide(ctx context.Context) (b brief, err error) {
	var from *checkpoint.Checkpoint
	if d.opt.Again != "" { // before looking: an earlier generation can then no longer commit
		if err := d.takeTurn(d.opt.Again); err != nil {
			return b, err
		}
	}
	if d.differ, err = (hostVolumes{d.run}).differing(d.opt.Again, d.opt.Resume); err != nil {
		return b, err
	}
	if d.opt.Again != "" {
		if _, _, err := checkpoint.Resolve(d.opt.Again); !errors.Is(err, fs.ErrNotExist) {
			d.opt.Resume = d.opt.Again
		}
	}
	if d.opt.Resume != "" {
		if from, err = d.choose(ctx); err != nil {
			return b, rundir.ResumeHint(err, d.opt.Resume)
		}
		if d.from = from; from != nil {
			b.From = from.Dir()
		}
	}
	foreign := d.opt.From != "" && from == nil && convert.Is(d.opt.From)
	if d.opt.From != "" && from == nil && !foreign {
		if b.Source = d.opt.Day.kept().source(d.opt.From); b.Source == "" {
			b.Source, err = findSource(ctx, d.opt.From, d.opt.Warn)
		}
		if err != nil {
			return b, err
		}
	}
	if b.Replay = d.opt.Replay; b.Replay != "" {
		if err := d.opt.replay(d.size); err != nil {
			return b, permanent(err)
		}
	}
	c, changed, err := d.opt.config(from)
	if err != nil {
		return b, permanent(err)
	}
	d.settings = changed
	if d.adapt != nil {
		err = d.adapt(c)
		b.Config = string(c.YAML())
		return b, permanent(err)
	}
	if err := errors.Join(checkVersion(from), d.tolerance(c, from)); err != nil {
		return b, permanent(err)
	}
	if err := d.opt.checkCombination(c, d.size); err != nil {
		return b, permanent(err)
	}
	b.Again, b.Tolerance, b.Chaos = d.opt.Again != "", d.opt.Tolerance, d.opt.Chaos.String()
	if d.opt.Replicas > 1 {
		b.Ring = copies.NewRing(d.size, d.opt.Hosts)
	}
	b.Config = string(c.YAML())
	if err = d.openRunDir(&b, from, c, changed); err == nil && foreign {
		b.Source, err = convertSource(ctx, d.opt.From, filepath.Join(b.RunDir, folderSource), c, true, d.opt.Say)
	}
	if err == nil && d.run.volumes != nil {
		b.Here, err = volumes.Token(b.RunDir)
	}
	return b, err
}

// takeTurn takes the turn of a run directory, unless this process has it.
func (d *decision) takeTurn(runDir string) (err error) {
	if d.turn == nil {
		d.turn, err = rundir.Take(runDir, d.run.owner(), "")
	}
	return err
}

// openRunDir chooses the run directory, locks it and writes the files of a new or resumed
// training to it. changed lists the settings that differ from the checkpoint's.
func (d *decision) openRunDir(b *brief, from *checkpoint.Checkpoint, c *config.Config, changed []string) (err error) {
	if b.RunDir, err = d.runDirectory(from); err != nil {
		return err
	}
	if err = d.takeTurn(b.RunDir); err != nil {
		return err
	}
	b.Turn = d.turn.Name
	if len(changed) > 0 {
		d.opt.Say("the configuration has changed since the checkpoint: " + strings.Join(changed, "; "))
	}
	if b.Injected, err = d.openFaults(b.RunDir); err != nil {
		return err
	}
	removed, err := checkpoint.Clean(d.turn.Root)
	if err != nil {
		return err
	}
	for _, r := range removed {
		d.opt.Warn(fmt.Sprintf("%s was removed: %s", checkpoint.Rest(r), r))
	}
	if _, err := os.Stat(filepath.Join(b.RunDir, rundir.FileConfig)); from == nil || err != nil {
		if err := keepConfig(b.RunDir, c); err != nil {
			return err
		}
	}
	if err := d.beginDays(b, from); err != nil {
		return err
	}
	if d.opt.Again != "" && from == nil && c.Data.EachHost() {
		d.warnOfLeftOut(b.RunDir)
	}
	if about := d.opt.About; about.Version != "" {
		about.Hosts = d.opt.Hosts
		switch {
		case b.Source != "":
			about.From = b.Source
		case from == nil && d.opt.From != "":
			about.From = d.opt.From // a model of another program
		}
		if day := d.opt.Day; day != nil {
			about.Day, about.Mark, about.Content = day.Day, day.Mark, day.Bytes()
		}
		if err := rundir.WriteAbout(b.RunDir, about); err != nil {
			d.opt.Warn(fmt.Sprintf("%s is not written: %v", rundir.FileRun, err))
		}
	}
	if from != nil && filepath.Dir(from.Dir()) != filepath.Join(b.RunDir, checkpoint.Folder) {
		err = save.Inherit(from, d.turn.Root, d.opt.Warn)
	}
	return err
}

// beginDays writes the ledger of train -by to a new run directory. It is the source's also without
// -by.
func (d *decision) beginDays(b *brief, from *checkpoint.Checkpoint) error {
	source := b.Source
	if from != nil && filepath.Dir(from.Dir()) != filepath.Join(b.RunDir, checkpoint.Folder) {
		source = from.Dir()
	}
	switch {
	case d.opt.Day != nil && from == nil:
		return d.opt.Day.begin(b.RunDir, b.Source)
	case d.opt.Day == nil && source != "":
		(dayLedger{d.run}).begin(b.RunDir, source, b.Config)
	}
	return nil
}

// warnOfLeftOut warns if a job with data.hosts: each, which restarts without a checkpoint, lacks
// hosts of its earlier generation: it trains on the files of the remaining hosts only.
func (d *decision) warnOfLeftOut(runDir string) {
	was, err := rundir.ReadAbout(runDir)
	left := slices.DeleteFunc(was.Hosts, func(h string) bool { return slices.Contains(d.opt.Hosts, h) })
	slices.Sort(left)
	names := "host " + strings.Join(slices.Compact(left), " and ")
	switch {
	case err != nil: // it was on the host of the former rank 0
		names = "the host of the former rank 0"
	case len(left) == 0:
		return
	}
	d.opt.Warn(fmt.Sprintf("data.hosts: each: the training starts from the beginning, without the files of %s, which is not in this job: start the job there too, or copy its files to another host", names))
}

// runDirectory returns the run directory. A job that restarts after a failure uses the one of its
// previous generation. Resuming from a run continues in its directory; resuming from one
// checkpoint picked by name starts a new directory.
func (d *decision) runDirectory(from *checkpoint.Checkpoint) (string, error) {
	if d.opt.Again != "" {
		return d.opt.Again, nil
	}
	if from != nil {
		root := filepath.Dir(from.Dir())
		if !d.opt.picked(from) && filepath.Base(root) == checkpoint.Folder {
			return filepath.Dir(root), nil
		}
	}
	return rundir.New(d.opt.Out, d.opt.Job, time.Now())
}

// choose opens the checkpoint to resume from. Unless Check has just done so, it reads every
// byte of the checkpoint and of its bases. A damaged checkpoint is reported and an earlier
// one is taken. A restarted job also skips checkpoints from which the remaining ranks cannot
// resume; if none is left, choose returns nil and training restarts from the beginning.
func (d *decision) choose(ctx context.Context) (*checkpoint.Checkpoint, error) {
	var accept []func(*checkpoint.Checkpoint) error
	switch {
	case d.differ[d.opt.Resume]:
		accept = append(accept, func(c *checkpoint.Checkpoint) error { return (hostVolumes{d.run}).fetch(ctx, c) })
	case !d.opt.Read || !checkpoint.IsCheckpoint(d.opt.Resume):
		accept = append(accept, func(c *checkpoint.Checkpoint) error {
			c.Watch(d.run.shown.Advance)
			return c.Verify(ctx)
		})
	}
	if d.opt.Again != "" {
		accept = append(accept, d.acceptable)
	}
	c, refused, err := checkpoint.Resolve(d.opt.Resume, accept...)
	for _, r := range refused {
		d.opt.Warn(fmt.Sprintf("checkpoint rejected: %v", r))
	}
	inside := func(err error) bool { return errors.Is(err, errInside) }
	switch {
	case err != nil && len(refused) > 0 && !slices.ContainsFunc(refused, func(err error) bool { return !inside(err) }):
		d.opt.Warn("the training restarts from the beginning")
		return nil, nil
	case err != nil:
		return nil, err
	case len(refused) > 0:
		d.opt.Warn(fmt.Sprintf("an earlier checkpoint is used: %s", c.Dir()))
	}
	return c, nil
}

// tolerance sets how the training treats slow ranks, and reports if the checkpoint was
// trained differently. It also records the changed settings that affect steps.
func (d *decision) tolerance(c *config.Config, from *checkpoint.Checkpoint) (err error) {
	if d.opt.Tolerance, err = d.opt.Tolerance.Of(c); err != nil || from == nil {
		return err
	}
	old, err := save.ReadConfig(from)
	if err != nil {
		return err
	}
	old.Fill()
	d.changed = otherSteps(old, c)
	was, err := step.Tolerance{}.Of(old)
	if now := d.opt.Tolerance; err == nil && was.String() != now.String() {
		d.opt.Say(fmt.Sprintf("the training resumes in %v; until step %d it was in %v", now, from.Step(), was))
	}
	d.nameStep(c, old, from)
	return err
}

// nameStep says that a step has another number of samples than before, because train.batch counts those of a rank.
func (d *decision) nameStep(c, old *config.Config, from *checkpoint.Checkpoint) {
	was, err := save.Placed(from, layout.Shards)
	if err != nil || was == nil || c.Train.Batch == 0 || c.Train.Batch != old.Train.Batch || was.Ranks == d.size {
		return
	}
	now, before := c.Train.Global(d.size), old.Train.Global(was.Ranks)
	d.opt.Say(fmt.Sprintf("a step has %d samples on %s, and had %d on %d, because train.batch counts those of a rank; to keep it: -set train.global_batch=%[3]d", now, plural.Of(d.size, "rank"), before, was.Ranks))
}

// acceptable returns an error if a restarted job cannot resume from a checkpoint with the
// remaining ranks.
func (d *decision) acceptable(from *checkpoint.Checkpoint) error {
	var at cursor
	if err := save.ReadJSON(from, save.SectionCursor, &at); err != nil {
		return err
	}
	if err := at.checkOrder(); err != nil || at.Queue == nil {
		return err
	}
	opt := *d.opt
	opt.Warn = nil // decide reports the settings
	c, _, err := opt.config(from)
	if err == nil {
		_, err = recordAt(&at, d.size, int64(c.Train.Global(d.size)))
	}
	return err
}

// openFaults returns the faults that were injected before a restart. A new job gets an empty
// list of them in its run directory.
func (d *decision) openFaults(runDir string) (s injected, err error) {
	if d.opt.Again != "" {
		if s, err = readInjected(runDir); !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
	}
	s = injected{Ranks: d.size}
	if len(d.opt.Chaos) > 0 {
		err = rundir.WriteFileMode(runDir, rundir.FileChaos, 0o600, fmt.Appendf(nil, "ranks %d\n", s.Ranks)) // the file is used as a lock
		return s, err
	}
	return s, nil
}

// brief holds the decisions of rank 0 at the start of a job. Rank 0 sends it to all ranks, so
// that all do the same even if their files or flags differ.
type brief struct {
	Config string // YAML, filled
	RunDir string
	Turn   string // of the group in RunDir
	Here   string // file of rank 0 in RunDir, see volumes.Token; "": all ranks are on one host
	From   string // checkpoint to resume from, "" for none
	Source string // checkpoint of the model that a new training begins with, "" for none

	Again     bool // the job restarts after a failure
	Tolerance step.Tolerance
	Chaos     string
	Injected  injected    // faults of Chaos that were injected before a restart
	Replay    string      // run directory to repeat, "" for none
	Ring      copies.Ring // which rank holds which copy; nil without replicas
}

// keepConfig writes the configuration to the run directory. A training that resumes in its
// own run directory calls it once it is known that at least one step is left.
func keepConfig(runDir string, c *config.Config) error {
	if err := rundir.WriteFile(runDir, rundir.FileConfig, c.YAML()); err != nil {
		return fmt.Errorf("run directory: %w; free some space, or choose another place with -out", err)
	}
	return nil
}

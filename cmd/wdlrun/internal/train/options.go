package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/runs"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/rank"
)

// trainOptions parses all flags except -config.
func trainOptions(c *cli.Context) (train.Options, error) {
	out := command.PathOf(c, "out")
	opt := train.Options{Out: out, Resume: command.RunOf(c, "resume", out), From: command.RunOf(c, "from", out), Again: c.String("into"), Survey: c.String("survey"), Set: command.Settings(c)}
	opt.Events = c.Bool("tensorboard")
	if c.Args().Present() {
		return opt, fmt.Errorf("train takes no arguments, but got %q; a configuration is given as -config FILE", c.Args().First())
	}
	if d := c.Duration("disk-patience"); d < 0 || d > time.Hour {
		return opt, fmt.Errorf("-disk-patience %v: from 0 to 1h; most network file systems need at most 1m", d)
	}
	if opt.From != "" && opt.Resume != "" {
		return opt, errors.New("-from begins a new training with the model of another, and -resume continues a training: give one of them")
	}
	if c.String("resume") == command.ResumeAuto {
		opt.Resume = ""
		if opt.Again == "" {
			if dir, saved := newestRun(opt.Out); saved {
				opt.Resume, opt.Auto = dir, true
			}
		}
	} else if opt.Resume != "" && c.IsSet("out") && c.String("resume") != rundir.Latest && !checkpoint.IsCheckpoint(opt.Resume) {
		return opt, errors.New("-resume continues in the run directory that it names, so -out has no effect: remove -out, or resume from one checkpoint to start a new run directory")
	}
	var err error
	if err = dayOf(c, &opt); err != nil {
		return opt, err
	}
	if opt.About, err = about(c); err != nil {
		return opt, err
	}
	if c.IsSet("device") {
		opt.Set = append(opt.Set, "train.device="+c.String("device"))
	}
	if c.IsSet("threads") {
		opt.Set = append(opt.Set, fmt.Sprintf("train.threads=%d", c.Int("threads")))
	}
	return opt, nil
}

// loadConfig reads the file of -config. It returns nil if there is none.
func loadConfig(c *cli.Context) (*config.Config, error) {
	path := command.PathOf(c, "config")
	if path == "" {
		return nil, nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("-config %s: the launcher and rank 0 read it, so it must be a regular file, not a pipe or a folder", path)
	}
	return command.Config(path, command.Settings(c))
}

// about returns the description of the training for lists of runs.
func about(c *cli.Context) (a rundir.About, err error) {
	const longest, most = 1 << 10, 32
	root := c.Lineage()[len(c.Lineage())-2] // the last is an empty parent
	a = rundir.About{Version: command.Version, Command: append([]string{"wdlrun"}, root.Args().Slice()...), Note: c.String("note")}
	if len(a.Note) > longest {
		return a, fmt.Errorf("-note: it has more than %d bytes", longest)
	}
	for tag := range strings.SplitSeq(c.String("tag"), ",") {
		if tag = strings.TrimSpace(tag); tag != "" && !slices.Contains(a.Tags, tag) {
			a.Tags = append(a.Tags, tag)
		}
		if len(tag) > 64 || strings.ContainsAny(tag, " \t\n") || len(a.Tags) > most {
			return a, fmt.Errorf("-tag %q: a tag has at most 64 bytes and no spaces, and a run has at most %d tags: -tag baseline,week47", tag, most)
		}
	}
	return a, nil
}

// nothingToResume returns the line that reports that -resume auto, or a restart by another launcher,
// begins a new training, "" if it resumes one.
func nothingToResume(resume string, w rank.World, opt train.Options) string {
	if resume == "" && w.Generation > 0 && !w.Launched {
		return fmt.Sprintf("wdlrun: %s has started this job again (restart %d): it begins at step 0; to resume from the last checkpoint after a restart: train -resume auto", w.By, w.Generation)
	}
	if resume != command.ResumeAuto || opt.Resume != "" || opt.Again != "" {
		return ""
	}
	why := "there is no run in " + opt.Out
	if newest, _ := newestRun(opt.Out); newest != "" {
		why = "the newest run, " + newest + ", has no checkpoint"
	}
	return "-resume auto: " + why + ": starting a new training"
}

// newestRun returns the newest run directory in a folder, "" if there is none, and whether
// it has a checkpoint. Names begin with the start time.
func newestRun(out string) (dir string, saved bool) {
	entries, err := os.ReadDir(out)
	if err != nil {
		return "", false
	}
	for _, e := range slices.Backward(entries) { // by name
		dir := filepath.Join(out, e.Name())
		if strings.HasPrefix(e.Name(), ".") || rundir.IsLatest(e) || !runs.IsRun(dir) {
			continue
		}
		found, err := checkpoint.List(filepath.Join(dir, checkpoint.Folder))
		return dir, err == nil && len(found) > 0
	}
	return "", false
}

// dayOptions is the content of -day, by which train -by starts the training on a partition.
type dayOptions struct {
	train.Day
	From string   `json:",omitempty"` // run directory of the model before it
	Into string   `json:",omitempty"` // run directory of this training, which was killed
	Set  []string // settings of the partition

	Begin  int64        `json:",omitempty"` // of its event time, Unix seconds
	Retain int          `json:",omitempty"` // train.retain.days
	Then   []dayOptions `json:",omitempty"` // the partitions after it on which the same processes train
}

// dayOf adds the options of -day.
func dayOf(c *cli.Context, opt *train.Options) error {
	if !c.IsSet("day") {
		return nil
	}
	var d dayOptions
	if err := json.Unmarshal([]byte(c.String("day")), &d); err != nil {
		return fmt.Errorf("-day: %w", err)
	}
	opt.Set, opt.From, opt.Day = slices.Concat(opt.Set, d.Set), d.From, &d.Day
	if opt.Again == "" {
		opt.Again = d.Into
	}
	return nil
}

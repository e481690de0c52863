package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/rank/chaos"
	"github.com/wdlrun/wdlrun/rank/commit"
	"github.com/wdlrun/wdlrun/wdl"
)

// tolerant reads the launch flags that say what becomes of slow ranks, and of
// which faults there are on purpose.
func tolerant(c *cli.Context, opt *wdl.Options) (err error) {
	if opt.Tolerance, err = tolerance(c.String("mode"), c.String("backup")); err != nil {
		return err
	}
	if opt.Chaos, err = chaos.Parse(c.String("chaos")); err != nil {
		return fmt.Errorf("-chaos: %w", err)
	}
	return nil
}

// tolerance makes sense of -mode and -backup. Backups alone mean drop, and drop
// alone finds out how many pay.
func tolerance(mode, backup string) (t wdl.Tolerance, err error) {
	if mode != "" {
		if t.Mode, err = commit.ParseMode(mode); err != nil {
			return t, fmt.Errorf("-mode: %w", err)
		}
	}
	switch backup {
	case "", "0":
		t.Auto = t.Mode == commit.Drop && backup == ""
	case "auto":
		t.Auto = true
	default:
		if t.Backup, err = strconv.Atoi(backup); err != nil || t.Backup < 0 || t.Backup > commit.MaxSlots {
			return t, fmt.Errorf("-backup %q: give a number of ranks, or auto", backup)
		}
	}
	if t.Auto || t.Backup > 0 {
		if mode != "" && t.Mode != commit.Drop {
			return t, errors.New("-backup is of -mode drop: leave one of them out")
		}
		t.Mode = commit.Drop
	}
	return t, nil
}

// tolerable refuses, before any rank is started, what so many ranks cannot do, and
// launch flags of a training for a program that is none.
func tolerable(c *cli.Context, what launched, ranks int) error {
	for _, name := range []string{"mode", "backup", "chaos"} {
		if c.String(name) != "" && !what.tolerates {
			return fmt.Errorf("-%s has no effect on this program: it is for train", name)
		}
	}
	t, err := tolerance(c.String("mode"), c.String("backup"))
	if err != nil {
		return err
	}
	if t.Backup >= ranks {
		return fmt.Errorf("-backup %d: of %d %s at least one must count: give at most %d", t.Backup, ranks, plural(ranks, "rank"), ranks-1)
	}
	faults, err := chaos.Parse(c.String("chaos"))
	if err == nil {
		err = faults.Validate(ranks)
	}
	for _, f := range faults {
		if err == nil && (f.Kind == chaos.Cut || f.Kind == chaos.Random) {
			err = fmt.Errorf("%v: a training cannot cut its links: write slow, stop, kill or diskfull", f)
		}
	}
	if err != nil {
		return fmt.Errorf("-chaos: %w", err)
	}
	return nil
}

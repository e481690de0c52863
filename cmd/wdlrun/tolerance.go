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

package command

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/internal/model/slots"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/train"
	"github.com/wdlrun/wdlrun/internal/train/chaos"
)

// ToleranceFlags returns the flags of train about slow ranks.
func ToleranceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "mode", Usage: "what to do about slow ranks: `MODE` wait waits for them, drop moves late microbatches to the next step, speculate also computes them on another rank", DefaultText: "wait, or drop with -backup"},
		&cli.StringFlag{Name: "backup", Usage: "do not wait for the last `B` microbatches of a step; auto chooses B from measured times"},
		&cli.StringFlag{Name: "chaos", Usage: "inject `FAULTS`: slow:3x@5, stop:2s@1@step30, kill:3@step100, cut:2-3@10s, diskfull@step50 or random:20@step500, separated by commas"},
	}
}

func ReplicasFlag() cli.Flag {
	return &cli.IntFlag{Name: "replicas", Usage: "`N`=2 keeps a copy of each rank's shards on a second rank, so that training continues from memory when a rank is lost", DefaultText: "1"}
}

// Tolerant parses the flags about slow ranks and injected faults.
func Tolerant(c *cli.Context, opt *train.Options) (err error) {
	if c.String("mode") != "" || c.String("backup") != "" {
		t, err := tolerance(c.String("mode"), c.String("backup"))
		if err != nil {
			return err
		}
		opt.Set = append(opt.Set, fmt.Sprint("train.mode=", t.Mode), fmt.Sprint("train.backup=", t.Backup))
	}
	if opt.Chaos, err = chaos.Parse(c.String("chaos")); err != nil {
		return fmt.Errorf("-chaos: %w", err)
	}
	return nil
}

// tolerance parses -mode and -backup. -backup without -mode means drop, and drop without
// -backup chooses the number.
func tolerance(mode, backup string) (t step.Tolerance, err error) {
	if mode != "" {
		if t.Mode, err = slots.ParseMode(mode); err != nil {
			return t, fmt.Errorf("-mode: %w", err)
		}
	}
	switch backup {
	case "":
		t.Auto = t.Mode == slots.Drop
	case "0": // no microbatch may be late
		if t.Mode == slots.Drop {
			t.Mode = slots.Wait
		}
	case "auto":
		t.Auto = true
	default:
		if t.Backup, err = strconv.Atoi(backup); err != nil || t.Backup < 0 || t.Backup > slots.MaxSlots {
			return t, fmt.Errorf("-backup %q: give a number of ranks, or auto", backup)
		}
	}
	if t.Auto || t.Backup > 0 {
		if mode != "" && t.Mode != slots.Drop {
			return t, errors.New("-backup is for -mode drop: remove -backup or -mode")
		}
		t.Mode = slots.Drop
	}
	return t, nil
}

// Tolerable rejects settings that are impossible with this number of ranks, before any
// rank is started.
func Tolerable(c *cli.Context, ranks int) error {
	if err := replicated(c.Int("replicas"), ranks); err != nil {
		return err
	}
	t, err := tolerance(c.String("mode"), c.String("backup"))
	if err != nil {
		return err
	}
	if t.Backup > 0 && ranks == 1 {
		return fmt.Errorf("-backup %d needs at least 2 ranks: give -np 2 or more", t.Backup)
	}
	if t.Backup >= ranks {
		return fmt.Errorf("-backup %d: at least one of %d microbatches of a step must count: give at most %d", t.Backup, ranks, ranks-1)
	}
	faults, err := chaos.Parse(c.String("chaos"))
	if err == nil {
		err = faults.Validate(ranks)
	}
	if err != nil {
		return fmt.Errorf("-chaos: %w", err)
	}
	return nil
}

// needed returns the least number of ranks with which -replicas, -backup and -mode are possible,
// after Tolerable has accepted them.
func needed(c *cli.Context) int {
	ranks := c.Int("replicas")
	if t, err := tolerance(c.String("mode"), c.String("backup")); err == nil && t.Mode != slots.Wait {
		ranks = max(ranks, 2, t.Backup+1)
	}
	return ranks
}

// replicated rejects impossible numbers of replicas.
func replicated(n, ranks int) error {
	switch {
	case n == 0 || n == 1:
		return nil
	case n != train.MaxReplicas:
		return fmt.Errorf("-replicas %d: give 1 or %d", n, train.MaxReplicas)
	case ranks < n:
		return fmt.Errorf("-replicas %d: a second rank is needed to keep the copies; give -np %d or more", n, n)
	}
	return nil
}

package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/internal/chaos"
	"github.com/wdlrun/wdlrun/internal/wdl"
	"github.com/wdlrun/wdlrun/internal/wdl/slots"
	"github.com/wdlrun/wdlrun/internal/wdl/step"
)

// tolerant reads the launch flags that say what becomes of slow ranks, and of
// which faults there are on purpose.
func tolerant(c *cli.Context, opt *wdl.Options) (err error) {
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

// tolerance makes sense of -mode and -backup. Backups alone mean drop, and drop
// alone finds out how many pay.
func tolerance(mode, backup string) (t step.Tolerance, err error) {
	if mode != "" {
		if t.Mode, err = slots.ParseMode(mode); err != nil {
			return t, fmt.Errorf("-mode: %w", err)
		}
	}
	switch backup {
	case "":
		t.Auto = t.Mode == slots.Drop
	case "0": // nothing may be late
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
			return t, errors.New("-backup is of -mode drop: leave one of them out")
		}
		t.Mode = slots.Drop
	}
	return t, nil
}

// tolerable refuses, before any rank is started, what so many ranks cannot do, and
// launch flags of a training for a program that is none.
func tolerable(c *cli.Context, what launched, ranks int) error {
	if err := ofTraining(c, what); err != nil {
		return err
	}
	if err := replicated(c.Int("replicas"), ranks); err != nil {
		return err
	}
	t, err := tolerance(c.String("mode"), c.String("backup"))
	if err != nil {
		return err
	}
	if t.Backup > 0 && ranks == 1 {
		return fmt.Errorf("-backup %d: one rank has no other to be later than: give -np 2 or more", t.Backup)
	}
	if t.Backup >= ranks {
		return fmt.Errorf("-backup %d: of %d %s at least one must count: give at most %d", t.Backup, ranks, plural(ranks, "rank"), ranks-1)
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

// ofTraining refuses launch flags of a training for a program that is none.
func ofTraining(c *cli.Context, what launched) error {
	for _, name := range []string{"mode", "backup", "chaos"} {
		if c.String(name) != "" && !what.tolerates {
			return fmt.Errorf("-%s has no effect on this program: it is for train", name)
		}
	}
	if n := c.Int("replicas"); n != 0 && n != 1 && !what.goOn {
		return errors.New("-replicas has no effect on this program: it is for train")
	}
	return nil
}

// withoutTraining has commands, and their subcommands, refuse launch flags of a training
// before they do anything.
func withoutTraining(commands []*cli.Command) {
	for _, k := range commands {
		withoutTraining(k.Subcommands)
		act, what := k.Action, launched{goOn: k.Name == "train", tolerates: tolerates(k)}
		k.Action = func(c *cli.Context) error {
			if err := ofTraining(c, what); err != nil {
				return err
			}
			return act(c)
		}
	}
}

// tolerates tells whether a command knows -mode, -backup and -chaos.
func tolerates(k *cli.Command) bool {
	return slices.Contains([]string{"train", "straggler"}, k.Name)
}

// replicated refuses replicas that there cannot be.
func replicated(n, ranks int) error {
	switch {
	case n == 0 || n == 1:
		return nil
	case n != wdl.MaxReplicas:
		return fmt.Errorf("-replicas %d: there can be 1 or %d", n, wdl.MaxReplicas)
	case ranks < n:
		return fmt.Errorf("-replicas %d: a second rank is needed to keep the copies; give -np %d or more", n, n)
	}
	return nil
}

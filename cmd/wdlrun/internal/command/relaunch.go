package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/internal/control/restart"
	"github.com/wdlrun/wdlrun/internal/text/plural"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/launcher"
	"github.com/wdlrun/wdlrun/rank"
)

// changedHosts returns the function that reports a change of hosts and returns the command that
// continues the training, nil if it has ended before the change.
func changedHosts(p *Program, c *cli.Context, command []string) func(launcher.Turn) []string {
	return func(t launcher.Turn) []string {
		what := fmt.Sprintf("the hosts change: %s on %s", plural.Of(len(t.Plan.Ranks), "rank"), t.Plan.Hosts())
		if t.Failed != nil {
			if t.Verdict != nil {
				p.printAfter(t.Outcome, t.Stderr)
			}
			what = fmt.Sprintf("the training returns to its previous hosts: %s", t.Plan.Hosts())
			if t.Verdict == nil { // verdicts are printed when they are given
				what += ": " + t.Failed.Error()
			}
		} else if r := (report.Result{}); json.Unmarshal(t.Result, &r) != nil || !r.Stopped {
			return nil
		}
		p.hosts = hostFlags(c, t.Plan)
		fmt.Fprintf(t.Stderr, "wdlrun: %s%s\n", what, resumesFrom(t.Status.RunDir, p.hosts != ""))
		return append(slices.Clip(command), "-into", t.Status.RunDir)
	}
}

// restarted returns a function that reports a failure that the job survives and returns the
// command that continues: in the run directory, if there is one and the command supports
// it.
func (p *Program) restarted(command []string, resumes bool) func(launcher.Failure) []string {
	next := command
	return func(f launcher.Failure) []string {
		var r report.Result
		switch {
		case f.Verdict == nil && (json.Unmarshal(f.Result, &r) != nil || !r.Stopped): // a host has left at the end
			return nil
		case f.Verdict != nil && !f.Next.Waits:
			p.printAfter(f.Outcome, f.Stderr)
		}
		dir, from := f.Status.RunDir, ""
		if resumes && dir != "" {
			next, from = append(slices.Clip(command), "-into", dir), resumesFrom(dir, p.hosts != "")
		}
		if f.Next.Plan == restart.Rejoin {
			from = ", and training resumes from memory"
		}
		fmt.Fprintf(f.Stderr, "wdlrun: %s%s\n", f.Next.Text, from)
		return next
	}
}

// saves reports that an interrupted training still writes its checkpoint. Programs that
// cannot continue in a run directory are killed instead. parts reports that the same command continues.
func saves(resumes, parts bool) func(rank.Status, io.Writer) {
	if !resumes {
		return nil
	}
	return func(s rank.Status, w io.Writer) {
		next := "-resume " + cmp.Or(s.RunDir, "RUN")
		if parts {
			next = "the same command"
		}
		fmt.Fprintf(w, "wdlrun: stopping: finishing step %d and writing its checkpoint (%s); repeat the signal to end at once: %s then continues from the previous checkpoint\n",
			s.Step, cmp.Or(s.Phase, "at work"), next)
	}
}

// resumesFrom describes the point from which a training resumes. elsewhere reports that ranks
// run on other hosts.
func resumesFrom(runDir string, elsewhere bool) string {
	root := filepath.Join(runDir, checkpoint.Folder)
	c, _, err := checkpoint.Latest(root)
	if err != nil && elsewhere && !IsDir(root) { // the ranks may have it on disks of their own
		return ", from the last checkpoint on the hosts, if there is one"
	}
	if err != nil {
		return ", from the beginning: there is no checkpoint yet"
	}
	return fmt.Sprintf(", from the checkpoint of step %d", c.Step())
}

package straggler

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/commit"
)

// Line is one job of a comparison.
type Line struct {
	Name             string  `json:"name"`
	SamplesPerSecond float64 `json:"samples_per_second"`
	Share            float64 `json:"share"` // of the first line's
	LateSlots        int64   `json:"late_slots"`
	Steps            int64   `json:"steps"`
}

// Compare predicts the job of c, whose Mode, Backup and Auto it ignores, with nobody
// slow, and in each of the modes: with backups for a sixteenth of the ranks, as
// docs/design/0003 has it, in drop.
func Compare(c Config) ([]Line, error) {
	if c.Ranks == 1 {
		return nil, fmt.Errorf("straggler: compare: one rank waits for nobody")
	}
	calm := c
	calm.Faults, calm.StallShare = nil, 0
	b := max(1, c.Ranks/16)
	var lines []Line
	for _, job := range []struct {
		name   string
		c      Config
		mode   commit.Mode
		backup int
	}{
		{"nobody slow, wait", calm, commit.Wait, 0},
		{"wait", c, commit.Wait, 0},
		{fmt.Sprintf("drop, backup %d", b), c, commit.Drop, b},
		{"speculate", c, commit.Speculate, 0},
	} {
		job.c.Mode, job.c.Backup, job.c.Auto = job.mode, job.backup, false
		r, err := Run(job.c)
		if err != nil {
			return nil, err
		}
		l := Line{Name: job.name, SamplesPerSecond: r.SamplesPerSecond, Share: 1, LateSlots: r.LateSlots, Steps: r.Steps}
		if len(lines) > 0 {
			l.Share = l.SamplesPerSecond / lines[0].SamplesPerSecond
		}
		lines = append(lines, l)
	}
	return lines, nil
}

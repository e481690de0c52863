package wdl

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/wdlrun/wdlrun/rank/commit"
	"github.com/wdlrun/wdlrun/wdl/config"
)

// replay takes configuration and mode from the run that is repeated.
func (o *Options) replay(size int) error {
	b, err := os.ReadFile(filepath.Join(o.Replay, fileMode))
	if err != nil {
		return fmt.Errorf("wdl: replay: %s is no run in which steps could leave microbatches out: %w; repeat others with: train -config %s",
			o.Replay, err, filepath.Join(o.Replay, fileConfig))
	}
	var m runMode
	if err := json.Unmarshal(b, &m); err != nil {
		return fmt.Errorf("wdl: replay: %s: %w", filepath.Join(o.Replay, fileMode), err)
	}
	if m.WorldSize != size {
		return fmt.Errorf("wdl: replay: %s ran on %d ranks, here are %d: microbatches would be others; use -np %d", o.Replay, m.WorldSize, size, m.WorldSize)
	}
	if o.Tolerance.Mode, err = commit.ParseMode(m.Mode); err != nil {
		return fmt.Errorf("wdl: replay: %s: %w", filepath.Join(o.Replay, fileMode), err)
	}
	o.Tolerance.Backup, o.Tolerance.Auto = m.Backup, m.Auto
	o.Config, err = config.Load(filepath.Join(o.Replay, fileConfig))
	return err
}

// script reads the steps of a run that is to be replayed; nil for none.
func script(dir string) ([]commit.Record, error) {
	if dir == "" {
		return nil, nil
	}
	records, err := readCommits(dir)
	if err != nil {
		return nil, err
	}
	if records[0].Step != 0 || len(records) == 1 {
		return nil, fmt.Errorf("wdl: replay: the log of %s begins after step %d and has %d steps: only runs from the very start can be replayed", dir, records[0].Step, len(records)-1)
	}
	return records[1:], nil
}

// lastOfScript reports whether the step to come is the last that a replayed log
// has: where the run was stopped, its replay stops too.
func (x *Tolerant) lastOfScript() bool {
	return len(x.script) == 1 && x.script[0].Queue.Left() > 0
}

// act computes what counted in a step of the script. Everything is done at home:
// who did it then made no difference.
func (x *Tolerant) act(n int64) error {
	if len(x.script) == 0 {
		return fmt.Errorf("wdl: replay: the log ends before step %d: was the run resumed elsewhere?", n)
	}
	r := x.script[0]
	x.script = x.script[1:]
	for left := r.Pieces; len(left) > 0; {
		var later []commit.Piece
		taken := make([]bool, x.size)
		for _, p := range left {
			if home := x.home(p.Batch.First); taken[home] {
				later = append(later, p)
			} else {
				taken[home] = true
				x.leases = append(x.leases, lease{commit.Tag{Step: r.Step, Slot: p.Slot, Attempt: p.Attempt}, home, p.Batch.First})
			}
		}
		left = later
		if err := x.deal(n); err != nil {
			return err
		}
		if x.current != nil {
			<-x.hand.ended
			if w := x.end(); w.err != nil {
				return w.err
			}
		}
	}
	x.decided = &r
	return nil
}

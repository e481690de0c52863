package train

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/trace"
)

// Gathered is the result of Gather and the JSON line of `wdlrun ckpt gather --json`.
type Gathered struct {
	Checkpoint string `json:"checkpoint"`     // the newest that is complete on the hosts together
	Step       int64  `json:"step"`           // of it
	Best       int64  `json:"best,omitempty"` // step of the best epoch, collected too
	Parts      int    `json:"parts"`          // copied from other hosts
	Bytes      int64  `json:"bytes"`          // of them
}

// Gather collects the checkpoint that Options.Resume names, or the newest one of a run and
// that of its best epoch, on the host of rank 0. Nothing is removed from the other hosts.
func (j *Job) Gather(ctx context.Context) (res Gathered, err error) {
	defer func() { j.volumes.Close() }()
	if err := j.openVolumes(); err != nil {
		return res, err
	}
	if j.Comm.Rank() > 0 {
		if _, err := (hostVolumes{&j.run}).serveRequests(ctx); err != nil {
			return res, err
		}
	} else if res, err = j.gatherHere(ctx); err != nil {
		return res, err
	}
	j.Rec.Enter(trace.Wait) // the others serve the files until rank 0 has them
	return res, collective.Barrier(j.Comm)
}

// gatherHere is Gather on rank 0.
func (j *Job) gatherHere(ctx context.Context) (res Gathered, err error) {
	j.Rec.Enter(trace.Restore)
	d := decision{opt: &j.opt, size: j.Comm.Size(), run: &j.run}
	if d.differ, err = (hostVolumes{&j.run}).differing(j.opt.Resume); err != nil {
		return res, err
	}
	c, err := d.choose(ctx)
	if err != nil {
		return res, permanent(rundir.ResumeHint(err, j.opt.Resume))
	}
	res.Checkpoint, res.Step = c.Dir(), c.Step()
	all := []*checkpoint.Checkpoint{c}
	p, err := save.ReadProgress(c)
	if err != nil {
		return res, err
	}
	if p.Best > 0 && p.Best != p.Step && !j.opt.picked(c) {
		best, err := checkpoint.Open(checkpoint.Dir(filepath.Dir(c.Dir()), p.Best))
		if err == nil && j.volumes != nil {
			err = (hostVolumes{&j.run}).fetch(ctx, best)
		}
		if err != nil {
			j.opt.Warn("the best epoch is not collected: " + err.Error())
		} else {
			all, res.Best = append(all, best), p.Best
		}
	}
	if err := (hostVolumes{&j.run}).request(askNothing); err != nil {
		return res, err
	}
	seen := map[string]bool{}
	for _, c := range all {
		for _, link := range c.Chain() {
			for _, f := range link.Manifest().Files {
				path := filepath.Join(link.Dir(), f.Name)
				if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) && !seen[path] {
					seen[path], res.Parts, res.Bytes = true, res.Parts+1, res.Bytes+f.Size
				}
			}
		}
		if err := checkpoint.Copy(c, filepath.Dir(c.Dir())); err != nil {
			return res, permanent(err)
		}
	}
	return res, nil
}

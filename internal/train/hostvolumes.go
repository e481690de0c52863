package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/runs/rundir"
	"github.com/wdlrun/wdlrun/internal/train/volumes"
	"github.com/wdlrun/wdlrun/trace"
)

// openVolumes starts the service for the other hosts. It does nothing if it has been started.
func (r *run) openVolumes() (err error) {
	if r.volumes == nil {
		r.volumes, err = volumes.Open(volumes.Config{Comm: r.Comm, Hosts: r.opt.Hosts, Key: r.opt.Key, Listen: r.opt.Listen, Patience: r.opt.DiskPatience, Advance: r.shown.Advance})
	}
	return err
}

// hostVolumes is a run on hosts that may have checkpoints of their own.
type hostVolumes struct{ *run }

// observer reports what happens while checkpoints are read.
func (r hostVolumes) observer() volumes.Observer {
	return volumes.Observer{Advance: r.shown.Advance, Warn: r.Warn}
}

// Requests of rank 0 to the other ranks while it decides what to do.
const (
	askCollect = 'c' // Volumes.Collect
	askFetch   = 'f' // Volumes.Fetch
	askNothing = 'n' // it has decided
)

// request sends a request to the other ranks. All ranks must then make the same call.
func (r hostVolumes) request(what byte) error {
	if r.volumes == nil {
		return nil
	}
	_, err := collective.BroadcastBytes(r.Comm, []byte{what}, 0, 1)
	return err
}

// serveRequests does what rank 0 asks for, until it has decided. It returns the checkpoint that was
// fetched last.
func (r hostVolumes) serveRequests(ctx context.Context) (last *checkpoint.Checkpoint, err error) {
	if r.volumes == nil {
		return nil, nil
	}
	for {
		r.Rec.Enter(trace.Wait)
		b, err := collective.BroadcastBytes(r.Comm, nil, 0, 1)
		if err != nil {
			return nil, err
		}
		r.Rec.Enter(trace.Brief)
		switch {
		case len(b) == 1 && b[0] == askCollect:
			if _, err := r.volumes.Collect(""); err != nil {
				return nil, err
			}
		case len(b) == 1 && b[0] == askFetch:
			c, fault, err := r.volumes.Fetch(ctx, nil, true, r.observer())
			if err != nil {
				return nil, err
			}
			if fault == "" {
				last = c
			}
		default:
			return last, nil
		}
	}
}

// collect gets the manifests of the checkpoints of other hosts, before rank 0 looks for one in
// path. It reports whether the hosts have different ones.
func (r hostVolumes) collect(path string) (differ bool, err error) {
	if r.volumes == nil || path == "" {
		return false, nil
	}
	root := filepath.Join(path, checkpoint.Folder)
	if checkpoint.IsCheckpoint(path) {
		root = filepath.Dir(filepath.Clean(path))
	} else if found, err := checkpoint.List(path); err == nil && len(found) > 0 {
		root = path
	}
	if err := r.request(askCollect); err != nil {
		return false, err
	}
	return r.volumes.Collect(root)
}

// differing collects the manifests of several paths, and reports of which the hosts differ.
func (r hostVolumes) differing(paths ...string) (differ map[string]bool, err error) {
	differ = map[string]bool{}
	for _, path := range paths {
		if differ[path], err = r.collect(path); err != nil {
			return nil, err
		}
	}
	return differ, nil
}

// fetch makes a checkpoint that rank 0 has opened readable on all ranks, or returns why it
// cannot be used.
func (r hostVolumes) fetch(ctx context.Context, c *checkpoint.Checkpoint) error {
	if err := r.request(askFetch); err != nil {
		return err
	}
	_, fault, err := r.volumes.Fetch(ctx, c, true, r.observer())
	if err == nil && fault != "" {
		err = errors.New(fault)
	}
	return err
}

// findVolumes finds out which ranks see the run directory in which rank 0 has made the file token.
// The others get a directory of their own.
func (r *run) findVolumes(token string) error {
	if r.volumes == nil || r.runDir == "" {
		return r.sharesRunDir()
	}
	r.Rec.Enter(trace.Wait)
	if err := r.volumes.Split(r.runDir, token); err != nil || !r.volumes.Several() {
		return err
	}
	if r.Comm.Rank() > 0 && r.volumes.Leads() {
		if err := r.takeTurn(); err != nil {
			return err
		}
		if _, err := checkpoint.Clean(r.turn.Root); err != nil {
			return err
		}
	}
	copies := "one copy: the loss of a host loses its parts (train.checkpoint.copies: 2)"
	if r.config.Train.Checkpoint.Copies > 1 {
		copies = "two copies"
	}
	r.Say(fmt.Sprintf("the hosts do not share %s: each keeps the checkpoint parts of its ranks there, in %s", r.runDir, copies))
	return nil
}

// takeTurn takes the turn of the group on this volume. After the loss of a rank, this rank may have
// the turn of the group before.
func (r *run) takeTurn() (err error) {
	if r.turn != nil {
		return r.turn.Renew(r.owner(), r.turnName)
	}
	r.turn, err = rundir.Take(r.runDir, r.owner(), r.turnName)
	return err
}

// owner returns who trains in the run directory.
func (r *run) owner() rundir.Owner { return r.opt.Owner }

// sharesRunDir returns an error if this host does not see the run directory that rank 0 has
// made: this rank could not write its part of a checkpoint there.
func (r *run) sharesRunDir() error {
	if r.runDir == "" {
		return nil // an evaluation has none
	}
	_, err := os.Stat(r.runDir)
	if errors.Is(err, fs.ErrNotExist) {
		where := "this host"
		if i := r.Comm.Rank(); i < len(r.opt.Hosts) {
			where = "host " + r.opt.Hosts[i]
		}
		return fmt.Errorf("run directory: %s: %w on %s; every rank writes its part of a checkpoint there: choose a directory on a shared file system with -out", r.runDir, fs.ErrNotExist, where)
	}
	return err
}

// mergeFaults adds the faults that were injected on other volumes before a restart.
func (r hostVolumes) mergeFaults(before injected, given bool) (injected, error) {
	if !given || !r.volumes.Several() {
		return before, nil
	}
	own, err := readInjected(r.runDir)
	if err != nil && r.volumes.Leads() {
		err = rundir.WriteFileMode(r.runDir, rundir.FileChaos, 0o600, fmt.Appendf(nil, "ranks %d\n", before.Ranks)) // the file is used as a lock
		if err != nil && !os.IsExist(err) {
			return before, err
		}
	}
	b, err := json.Marshal(own.Been)
	if err != nil {
		return before, err
	}
	all, err := collective.AllGatherBytes(r.Comm, b, maxBrief)
	if err != nil {
		return before, err
	}
	for _, b := range all {
		var been []int
		if err := json.Unmarshal(b, &been); err != nil {
			return before, err
		}
		before.Been = append(before.Been, been...)
	}
	return before, nil
}

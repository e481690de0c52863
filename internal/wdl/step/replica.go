package step

import (
	"bytes"
	"slices"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/wdl/copies"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// Replicate has each rank keep a copy of another's shards from now on, and every step
// wait until all that it needs is where it survives the loss of any one rank: then
// either all ranks that are left take the step, or it can be taken again. The ring says
// whose. Call it before the first step, on every rank of at least two.
func (t *Trainer) Replicate(ring copies.Ring) error {
	t.copies = true
	return t.model.store.Replica().Start(ring)
}

// prepare brings a step to where any surviving rank can take it. The barrier is the
// point of no return: a rank passes it only when every rank has what it needs.
func (t *Trainer) prepare(at sparse.Step) error {
	t.rec.Enter(trace.Sync)
	if err := t.model.store.Replica().Mirror(at); err != nil {
		return err
	}
	t.ready = at
	return collective.Barrier(t.comm)
}

// Left is what a process keeps of a trainer whose group was lost, for a trainer over
// the next generation of the group.
type Left struct {
	store *sparse.Store
	dense []byte      // parameters and their state
	ready sparse.Step // see Ready
}

// Leave ends the trainer's threads but not its tables, which are in what it returns
// with the dense parameters. The trainer must not be used afterwards.
func (t *Trainer) Leave() *Left {
	t.model.stop()
	var dense bytes.Buffer
	if err := t.model.arena.Save(&dense); err != nil { // a buffer takes everything
		panic(err)
	}
	return &Left{t.model.store, dense.Bytes(), t.ready}
}

// Ready is the step of which everything was here, whether this rank had taken it or
// not; 0 for none.
func (l *Left) Ready() int64 { return l.ready.N }

// Close frees the tables.
func (l *Left) Close() error { return l.store.Close() }

// maxDense bounds the dense parameters on their way, in bytes: of the largest arena
// and two floats of state for each.
const maxDense = 16 << 30

// Inherit takes over the dense parameters that the leader of the recovery has and, if
// this rank has nothing left, the steps that rows take when they appear. Every rank of a
// new group calls it with what it has left itself, nil for nothing.
func (t *Trainer) Inherit(left *Left, leader int) error {
	var dense []byte
	if left != nil {
		dense = left.dense
	}
	dense, err := collective.BroadcastBytes(t.comm, dense, leader, maxDense)
	if err != nil {
		return err
	}
	if err := t.model.arena.Load(bytes.NewReader(dense)); err != nil {
		return err
	}
	past := t.model.store.Files().Past()
	if past == nil {
		return nil
	}
	var steps bytes.Buffer
	if err := past.Save(&steps); err != nil {
		return err
	}
	all, err := collective.BroadcastBytes(t.comm, steps.Bytes(), leader, maxDense)
	if err != nil || left != nil {
		return err
	}
	return past.Load(bytes.NewReader(all))
}

// Heal brings the tables of every rank to the state after step n, and each shard to two
// ranks again, those of the ring that the group had. Ranks that had not taken step n,
// though it was ready, take it now.
func (t *Trainer) Heal(left *Left, r copies.Recovery, ring copies.Ring, n int64) (err error) {
	store := t.model.store
	if t.copies = true; left == nil {
		err = t.Replicate(ring)
	} else {
		if slices.Contains(r.Behind, t.comm.Rank()) {
			err = store.Apply(left.ready)
		}
		store.Replica().Discard()
	}
	if err != nil {
		return err
	}
	return store.Replica().Heal(r.Empty, n)
}

package step

import (
	"bytes"
	"slices"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/model/copies"
	"github.com/wdlrun/wdlrun/sparse"
	"github.com/wdlrun/wdlrun/trace"
)

// Replicate makes each rank keep a copy of another rank's shards, which the ring
// determines. Before each update all ranks wait until the step survives the loss of any one
// rank: either all remaining ranks take it, or it is computed again. Call it before the
// first step, on every rank of a group of at least two.
func (t *Trainer) Replicate(ring copies.Ring) error {
	t.copies = true
	return t.model.store.Replica().Start(ring)
}

// prepare makes a step ready: any rank that survives can take it. A rank passes the barrier
// only when every rank has all data of the step; after that the step must be taken.
func (t *Trainer) prepare(at sparse.Step) error {
	t.rec.Enter(trace.Sync)
	if err := t.model.store.Replica().Mirror(at); err != nil {
		return err
	}
	t.ready = at
	return collective.Barrier(t.comm)
}

// Left holds the state of a trainer whose group was lost, for a trainer over the next
// generation of the group.
type Left struct {
	store *sparse.Store
	dense []byte      // parameters and their state
	ready sparse.Step // see Ready
}

// Leave ends the trainer's threads and returns its tables and dense parameters. The trainer
// must not be used afterwards.
func (t *Trainer) Leave() *Left {
	t.model.stop()
	var dense bytes.Buffer
	if err := t.model.arena.Save(&dense); err != nil { // a buffer takes everything
		panic(err)
	}
	return &Left{t.model.store, dense.Bytes(), t.ready}
}

// Ready returns the last step whose data were complete on this rank, whether or not it had
// taken it; 0 if none.
func (l *Left) Ready() int64 { return l.ready.N }

// Close frees the tables.
func (l *Left) Close() error { return l.store.Close() }

// maxDense is the largest size of the dense parameters in a message, in bytes: that of the
// largest arena with two floats of state for each parameter.
const maxDense = 16 << 30

// Inherit loads the dense parameters of the leader of the recovery. If l2.mode is dense, a
// rank without state also loads the leader's record of past steps. Every rank of a new
// group calls it, with nil if it has no state left.
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

// Heal brings the tables of every rank to the state after step n and restores the copies of
// the ring. Ranks that had not taken step n, although it was ready, take it now.
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

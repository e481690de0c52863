// Package commit decides which microbatches count in a step of synchronous
// training, so that slow and dead machines cannot stop it and no sample is lost
// or counted twice. It holds three pure state machines, without clock, I/O or
// goroutine, and the queue of microbatches that they agree on.
//
// # Two roles
//
// A rank is a worker, which reads and computes and may be late, and most often
// an owner, which holds shards and dense chunks and must answer. Contributions
// may be dropped; ownership never is. One coordinator leads a term.
//
//	coordinator           worker                  owners (all of them)
//	Lease(t, slot) ──►    Pull(version t−1) ──►
//	                                        ◄──   Rows(digest)
//	                      (compute)
//	                      Push(t, slot)     ──►   staged, not applied
//	         ◄──────────────────────────────────  Staged
//	Commit(A_t, samples) ──────────────────────►  summed in slot order, applied
//	         ◄──────────────────────────────────  Applied
//	Cancel(late)   ──►    (gives up)
//	         ◄──          Ready
//
// Ask and State open a term: the owners fence all earlier terms and tell what
// they applied and staged. Stale answers a wrong tag and ends the sender's work
// on it; Fenced answers a coordinator whose term is over.
//
// # Who runs what
//
// The trainer (internal/wdl/step) runs the coordinator alone, the same on every rank: its
// collective calls end on all ranks or on none, so the group is one owner, told of as
// rank 0, whose only term never ends, and all ranks tell their coordinators the same
// events. See docs/design/0003-slots.md. Owners and workers as processes of their own,
// messages that are lost, and coordinators that take over run in internal/bench/straggler and in
// the tests, which is where the rules that the coordinator goes by were proven.
//
// # Modes
//
//	Wait       every slot counts: plain synchronous training
//	Drop       Slots are leased, the first Slots−Backup complete ones count
//	           (Chen et al. 2016); the microbatches of the others go to the
//	           head of the queue, and after Retries the step waits for them
//	Speculate  every slot counts, and idle ranks redo late ones; the first
//	           complete copy counts, so that the result is free of timing
//
// # What holds
//
// A slot counts when every owner of the term has staged the same attempt of it.
// One commit set A_t per step is decided for all variables of all owners. Owners
// are at most one step apart, so a new term finds A_t applied somewhere and
// finishes it, or nowhere and chooses anew. Every microbatch is in exactly one
// A_t of an epoch. The chain of commit sets has a digest; a worker refuses rows
// from owners whose digests differ, and an owner a gradient computed elsewhere.
// The tests prove this by visiting every reachable state of small worlds; see
// docs/design/0002-commit.md.
//
// # What the driver owes
//
//   - Terms are unique and grow: no two coordinators use the same (MakeTerm).
//   - An owner that a term leaves out has ended, or is never asked again before
//     it has copied its shards from a holder (see Holders). Without this rule two
//     halves of a divided network could both go on.
//   - Staged gradients are kept by generation, step and Place until an owner's
//     Apply or Discard, whatever terms come meanwhile.
//   - An outcome's messages are sent after its act is done.
//   - Messages may be lost, repeated and late. Retry repeats what is outstanding.
//
// # Cost
//
// Per step and slot: one Lease and O messages of each other kind, O owners; all
// but Rows and Push are tens of bytes. State is bounded: the coordinator keeps
// one step of at most MaxSlots, an owner the pieces staged for one step, a
// worker one lease. Machines are not safe for concurrent use. What peers send
// never panics; wrong configurations are errors of Validate.
package commit

// Package slots decides which microbatches count in a step of synchronous training, so that
// slow ranks cannot stop it and no sample is lost or counted twice. It is a pure state
// machine, without messages, clock, I/O or goroutines.
//
//	Round(now, reports of every rank) → leases, cancellations, a commit
//
// Every rank of a training runs the same machine and passes it the same reports in the same
// order, from an all-gather. So all ranks make the same decisions without a leader. See
// docs/design/0002-commit.md, and internal/model/step for the step.
//
// # Modes
//
//	Wait       every slot counts: plain synchronous training
//	Drop       Ranks−Backup complete slots count (Chen et al. 2016); the
//	           microbatches of the others go to the head of the queue, and after
//	           Retries the step waits for them
//	Speculate  every slot counts, and idle ranks repeat late ones; the first complete
//	           copy counts, so that the result does not depend on timing
//
// # Guarantees
//
// One commit set is decided per step, for all variables. Every microbatch is in exactly one
// commit set of its epoch. A new machine can continue from a Record alone. The tests prove
// this by visiting every reachable state of small worlds.
package slots

// Package straggler predicts what slow ranks cost: it lets the real state
// machines of internal/commit lead a job of any size through virtual time.
//
//	r, err := straggler.Run(straggler.Config{Ranks: 32, Mode: commit.Drop, Backup: 2, StallShare: 0.01})
//
// # Cost model
//
// Messages and work take modelled times, everything else none:
//
//	control message (lease, staged, commit, …)    Control
//	pull: keys to the owners, rows back           Pull, half each way
//	compute of a microbatch                       Compute × slowness, + a stall
//	push: gradients to the owners                 Push
//	apply and all-gather at an owner              Sync
//
// A step without stragglers thus lasts
//
//	2·Control + max(Pull/2, Sync) + Pull/2 + Compute + Push
//
// since Lease travels beside Commit and the keys arrive while owners apply. A
// worker that is cancelled looks up at the end of each chunk, Compute/Chunks, and
// not at all in a stall.
// Owners answer in time whatever their rank computes: that is what the protocol
// asks of a rank, and why one whose process stands still is slower than this
// model says.
//
// The default times are those of one step of a small model on one host; a
// measurement replaces them. Throughput ratios depend on them little, as long as
// Compute is most of a step.
package straggler

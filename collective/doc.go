// Package collective lets P ranks compute together: allreduce, reduce-scatter,
// all-gather, all-to-all, broadcast, gather, barrier and gathers of byte strings,
// over any Transport.
//
// # Schedules
//
// An algorithm is a schedule: a pure function of rank, world size and part
// bounds that lists exchanges (peer to send to, peer to receive from, range to
// send, range to receive, reduce or overwrite). One small executor runs it.
// With n elements of which rank i owns the i-th Chunk and L = ⌈log2 P⌉, per rank:
//
//	call           algorithm                             rounds    elements sent      reduced
//	AllReduce      Ring: reduce-scatter, all-gather      2(P−1)    2n(P−1)/P          n(P−1)/P
//	               Bruck: gather all, sum all            L         n(P−1)             n(P−1)
//	               Direct: chunks to owners, Bruck       P−1+L     2n(P−1)/P          n(P−1)/P
//	               the same, forwarded by radix R        see below
//	               Doubling, any order                   L         nL                 nL
//	               Rails, L ranks on each of H hosts     see below
//	ReduceScatter  Ring, Direct                          P−1       n(P−1)/P           n(P−1)/P
//	               Direct, forwarded by radix R          see below
//	               Bruck: gather all, sum the chunk      L         n(P−1)             n(P−1)/P
//	AllGather(V)   Ring                                  P−1       n(P−1)/P           –
//	               Bruck                                 L         n(P−1)/P           –
//	AllToAll(V)    Pairwise: to r+k, from r−k            P−1       n(P−1)/P           –
//	               Bruck: by way of others, radix R      see below
//	Broadcast      Tree: binomial                        L         nL at the root     –
//	               Scatter: parts by tree, then Ring     L+P−1     2n(P−1)/P at most  –
//	Barrier        Doubling: to r+2^k, from r−2^k        L         0                  –
//	Gather         to the root directly                  P−1       n at each rank     –
//	AllGatherBytes lengths, then bytes, as AllGather
//	GatherBytes    lengths to all, bytes to the root
//	BroadcastBytes length, then bytes, as Broadcast
//
// n(P−1)/P is exact if P divides n; otherwise chunks differ by one element. Doubling
// takes two more rounds of n elements if P is not a power of two. In a tree, the
// receiver answers with an empty message, so that both ends of every edge compare
// their calls. Empty parts are exchanged for the same reason. With P = 1 no exchange
// is made.
//
// Choose selects the algorithm of a call. It is a pure function of the call and of
// Costs, which all ranks share: latency α, seconds per byte β, and seconds per byte
// reduced γ. Costs are DefaultCosts or the result of Measure. A ring allreduce of b
// bytes takes 2(P−1)(α + bβ/P), the least bandwidth any allreduce can use (Patarasu
// and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
// 2009).
//
// # Forwarding
//
// In an all-to-all by Bruck with radix R = 2, 4, 8, …, a part reaches its rank in as
// many hops as its distance has digits other than 0. That is at most (R−1)·⌈log_R P⌉
// rounds and about n(1−1/R)·⌈log_R P⌉ elements sent. For 1024 ranks and 8 bytes per
// pair it is 10 rounds instead of 1023. Forwarded bytes take link time from other
// channels, so forwarding is selected only if it saves a quarter of the time.
//
// In AllToAllV and AllToAllVisit, each rank knows only the lengths of its own parts.
// Lengths are then exchanged first, in L rounds of 8(P/2+1) bytes. This is done if L
// is at most a tenth of P−1, which is the case from about 64 ranks.
//
// Direct sends chunks to their owners by such an all-to-all, with known lengths. For
// 1024 ranks, 50 µs and 10 Gbit/s, an allreduce of 64 KiB takes 1.4 ms by Direct and
// 52 ms by Ring. Recursive halving and doubling (Rabenseifner, "Optimization of
// collective reduction operations", 2004) would take 1.05 ms. It is not offered,
// because it sums in another order than the ring (see Order of summation).
//
// # Pieces and posting
//
// If all ranks share a host (the transport is a Neighbour) and β is small, a ring
// allreduce runs in pieces of at least 1 MiB, or 256 KiB per rank if that is more. Each
// piece takes 2(P−1) rounds, and most of what a core sends is still in its cache. The
// order of summation does not change, so the sums have the same bits.
//
// If the transport is a Poster and all parts of a rank in Pairwise have at most 64 KiB,
// the rank sends all its parts at once and receives other parts in any order. It waits
// for all ranks at once, in one round. Each rank decides this for itself. Forwarding
// with R above 2 does the same with the R−1 messages of a digit: for 1024 ranks, 5 µs
// per post, 10 µs and 25 Gbit/s, parts of 1 KiB take 1.0 ms instead of 1.3.
//
// # Hosts
//
// NewHosts makes a group that knows which ranks share a host. A reduction between
// hosts can then use rails, in three stages: the ranks of a host reduce-scatter among
// themselves, ranks of equal local rank reduce their chunk between the hosts, and
// the ranks of a host gather the chunks. The link of a host carries 2n(H−1)/H
// elements instead of the 2n(P−1)/P of a flat ring, in far fewer rounds, and all
// ranks drive it. If hosts have unequal numbers of ranks, there are as many rails as
// the smallest host has ranks, and the first stage is an allreduce. Broadcast and
// Barrier work in the same way.
//
// The other calls use the flat transport. If the ranks of a host are consecutive, a
// ring loads a link with H(P−1)/(P(H−1)) times the minimum, at most 1.14 times with
// 8 hosts. An all-to-all cannot save bytes: each byte that crosses a link has its
// destination on the other side.
//
// # Windows
//
// A window is memory that all ranks can read and write. Windows exist if the ranks share
// memory (the transport is a Sharer); calls then need no messages. Alloc returns a buffer
// in a window. A call reads and writes buffers in windows in place, and copies other
// buffers through staging windows of 512 KiB per rank and channel. A meeting is one
// synchronisation of all ranks. Cost per rank for n elements:
//
//	call                      meetings    elements read and written
//	AllReduce    at most 16 bytes 1       none: the meeting carries them
//	             at most 4 KiB    1       n(P+1) read, 2n written
//	             in windows       2       n read, n written: a chunk of all ranks, to all
//	             elsewhere        1 + pieces of 256 KiB    3n each
//	AllGather, AllToAll, Broadcast, Gather
//	             in windows       2       each part once, in place
//	             elsewhere        pieces of 256 KiB        each part twice
//	AllToAllVisit in windows      2       none: visit reads the parts in place
//	AllToAll, small parts         1           none: the meeting carries them
//	Barrier                       1
//
// Small parts have at most 8/(P−1) bytes, among P ≤ 8 ranks. Parts in windows are copied
// through staging windows too if they have at most 8 KiB (64 KiB if there are more ranks
// than cores), because that saves a meeting. A buffer may be in a window on some ranks
// and not on others. The results have the same bits in all cases, also over messages.
//
// # Order of summation
//
// Chunk i of a reduction is ((x[i+1] + x[i+2]) + … ) + x[i], where x[r] is the
// contribution of rank r and ranks are counted modulo P. This is the order of the ring.
// Every algorithm keeps it, over messages and in windows. In a group of NewHosts, the
// ranks of each host are summed in this order first. The sums h[k] of the hosts are
// then added in the same order, for the chunk of each rail separately: chunk j of it
// is ((h[j+1] + h[j+2]) + … ) + h[j]. With one rank per host, or with one host, this is
// the order of a flat group.
//
// All ranks therefore have the same bits. The bits depend on n and on the number of
// ranks of each host, not on time, transport or algorithm. The result of ExactSum
// depends on the numbers alone. Doubling keeps no order and is selected only for
// integers, Min and Max. Min and Max return NaN if any contribution is NaN. If several
// inputs are NaN, the payload of the result is unspecified. Integer sums wrap. A sum of
// BF16 rounds each partial sum.
//
// # Rules of use
//
// Every rank makes the same calls in the same order on each channel. One goroutine at
// a time makes the calls of a channel. Channels are independent and may be used
// concurrently. Split makes groups of some of the ranks.
//
// A Comm keeps its schedule and its scratch memory, so that a repeated call allocates
// nothing. Calls that return byte strings allocate them. The scratch memory holds one
// chunk of the largest reduction by Ring, n elements for Direct, about n(2+log_R P)
// for Direct with forwarding, and n·P for Bruck, which is selected for small n only.
//
// # Errors and panics
//
// A call panics if the program is wrong: slices whose lengths contradict each other or
// the world size, negative counts, ranks outside the group. Everything else that can
// go wrong is an error.
//
// The first error ends the group on every rank, and every later call returns it
// again: *LostError (a rank is gone), *MismatchError (two ranks made different calls),
// *AbortError (a rank called Abort). Blamed returns the rank that caused it. The
// contents of the buffers of a failed call are unspecified. *LimitError is the
// exception: every rank returns it from the same call, before any byte has moved, and
// the group stays usable. Memory that cannot be shared is not an error: Alloc then
// returns ordinary memory on every rank.
//
// A transport detects different calls if a message shows the difference. Ranks that
// wait for each other without such a message are detected by the coordinator of a job,
// which compares the calls that they have begun (Comm.Made, rank.Calls). A group
// without a coordinator waits.
package collective

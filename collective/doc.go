// Package collective lets P ranks compute together: allreduce, reduce-scatter,
// all-gather, all-to-all, broadcast, gather, barrier and gathers of byte strings,
// over any Transport.
//
// # Schedules
//
// An algorithm is a schedule: a pure function of rank, world size and part
// bounds that lists exchanges (peer to send to, peer to receive from, range to
// send, range to receive, reduce or overwrite). One small executor runs it.
// With n elements of which rank i owns the i-th Chunk, per rank:
//
//	call           schedule                            rounds      elements sent
//	ReduceScatter  ring                                P−1         n(P−1)/P
//	AllGather(V)   ring                                P−1         n(P−1)/P
//	AllReduce      ring reduce-scatter, ring gather    2(P−1)      2n(P−1)/P
//	AllToAll(V)    pairwise: to r+k, from r−k          P−1         n(P−1)/P
//	Broadcast      binomial tree                       ⌈log2 P⌉    n⌈log2 P⌉ at the root
//	Barrier        dissemination: to r+2^k, from r−2^k ⌈log2 P⌉    0
//	AllGatherBytes lengths, then bytes, by ring        2(P−1)      8(P−1) + Σ len bytes
//	Gather         to the root directly                P−1         n at each rank
//	GatherBytes    lengths by ring, bytes to the root  P at most   8(P−1) + len bytes
//	BroadcastBytes length, then bytes, by tree         2⌈log2 P⌉   as Broadcast, twice
//
// (n(P−1)/P is exact where P divides n; otherwise chunks differ by one element.)
// Over links with latency α and β bytes a second a ring allreduce of b bytes
// takes 2(P−1)(α + b/(Pβ)), the least bandwidth any allreduce can use (Patarasu
// and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", 2009). In a tree, a receiver answers with an empty message, so
// that both ends of every edge compare what they were called for. Empty parts
// are exchanged too, for the same reason. With P = 1 no exchange is made.
//
// # Windows
//
// Where the ranks share memory (a Transport that is a Sharer), calls do without
// messages. Alloc gives out buffers that all ranks see, and a call on them reads
// and writes the others' buffers in place; other buffers pass through staging
// windows of 512 KiB a rank and channel. Per rank and n elements:
//
//	call                      meetings    elements read and written
//	AllReduce    at most 4 KiB    1       n(P+1) read, 2n written
//	             in windows       2       n read, n written: a chunk of all ranks, to all
//	             elsewhere        1 + pieces of 256 KiB    3n each
//	AllGather, AllToAll, Broadcast, Gather
//	             in windows       2       each part once, from where it lies
//	             elsewhere        pieces of 256 KiB        each part twice
//	AllToAllVisit in windows      2       none: visit reads the parts in place
//	Barrier                       1
//
// Up to 8 KiB, or 64 KiB where ranks outnumber cores, parts in windows pass
// through staging windows too: that saves a meeting. Ranks may differ in which of
// their buffers lie in windows. Results have the same bits either way, and the
// same as over messages.
//
// # Order of summation
//
// Chunk i of a reduction is ((x[i+1] + x[i+2]) + … ) + x[i], ranks counted
// modulo P and x[r] being rank r's contribution. All ranks then hold the same
// bits. The order depends on P and on n, never on time. Min and Max return NaN
// where any contribution is NaN; integer sums wrap. A sum of BF16 rounds each
// partial sum. Which NaN comes out of several is not said.
//
// # Rules of use
//
// Every rank makes the same calls in the same order on each channel. Calls of
// one channel are made by one goroutine at a time; different channels are
// independent and may be used at once. Split makes groups of some of the ranks. A
// Comm keeps its scratch memory (at most one chunk of the largest reduction) and
// its schedule, so that a call repeated allocates nothing; calls that return byte
// strings allocate them.
//
// # Errors and panics
//
// Slices whose lengths contradict each other or the world size, negative
// counts, ranks outside the group: the program is wrong, and the call panics.
// All that the world can do is an error. The first error ends the group on every
// rank, and every later call returns it again: *LostError (a rank is gone),
// *MismatchError (two ranks disagree about a call), *AbortError (a rank called
// Abort); Blamed tells which rank caused it. Buffers of a failed call hold
// anything. Only *LimitError leaves the group usable: every rank returns it from
// the same call, before any byte moved. Memory that cannot be shared is no error:
// Alloc gives out ordinary memory then, on every rank.
package collective

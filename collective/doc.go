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
// (n(P−1)/P is exact where P divides n; otherwise chunks differ by one element.
// Doubling takes two rounds of n more where P is no power of two.) In a tree, a
// receiver answers with an empty message, so that both ends of every edge compare
// what they were called for. Empty parts are exchanged too, for the same reason.
// With P = 1 no exchange is made.
//
// In an all-to-all by Bruck with radix R = 2, 4, 8, … a part goes to its rank in as
// many hops as its distance has digits that are not 0: (R−1)·⌈log_R P⌉ rounds at
// most, and about n(1−1/R)·⌈log_R P⌉ elements sent. Where ranks alone know the
// lengths of their parts, in AllToAllV and AllToAllVisit, lengths go first, in L
// rounds of 8(P/2+1) bytes; that is done where it takes a tenth of P−1 rounds at
// most, which is from about 64 ranks on. Of 1024 ranks, counts of 8 bytes for each other
// take 10 rounds instead of 1023. Forwarding has to save a quarter of the time, since
// its bytes take the link from calls on other channels.
//
// Where all ranks are known to be on one host (the transport is a Neighbour) and β is
// small, an allreduce by the ring goes in pieces of 1 MiB and more, or of 256 KiB a rank
// if that is more, each of which is summed and passed on before the next: 2(P−1) rounds
// a piece, and a core's cache has most of what it sends. The elements go the way that
// they would without, and so their sums have the same bits.
//
// Where all parts that a rank has by Pairwise are of at most 64 KiB, and the transport
// is a Poster, it sends them all and takes those of the others as they come: it waits
// for all ranks at once, and the rounds are one. Each rank decides that for itself. Where
// parts go by way of others by a radix R above 2 it does the same with the R−1 messages
// of a digit, so that these are one round too: of 1024 ranks that post in 5 µs, with 10 µs
// and 25 Gbit/s between them, parts of 1 KiB take 1.0 ms instead of 1.3.
//
// Direct brings chunks to their owners by such an all-to-all, of known lengths, where
// that is sooner: of 1024 ranks with 50 µs and 10 Gbit/s between them an allreduce of
// 64 KiB takes 1.4 ms instead of 52. Halving and doubling the distance (Rabenseifner,
// "Optimization of collective reduction operations", 2004) would take 1.05 ms, and is
// refused: it sums in another order than the ring does, see below.
//
// Over links with latency α and β seconds a byte a ring allreduce of b bytes
// takes 2(P−1)(α + bβ/P), the least bandwidth any allreduce can use (Patarasu
// and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", 2009). Which algorithm a call takes follows from Costs, a model
// of α, β and γ (seconds a byte reduced) that all ranks share: DefaultCosts, or
// what Measure found. Choose is the pure function that decides.
//
// # Hosts
//
// NewHosts makes a group that knows which ranks share a host. Between hosts, a
// call can then go in rails: the ranks of a host reduce among themselves, each
// its chunk; those of equal local rank on all hosts reduce that chunk between the
// hosts; the ranks of a host gather the chunks. A host's link carries 2n(H−1)/H
// elements instead of the 2n(P−1)/P of a flat ring, in far fewer rounds, and all
// ranks drive it. Where hosts have unlike numbers of ranks there are as many
// rails as the emptiest has, and the first stage is an allreduce. Broadcast and
// Barrier have the like. The other calls go over the flat transport: by the ring,
// where the ranks of a host follow each other, a link carries H(P−1)/(P(H−1))
// times what it must, which is 1.14 at most with 8 hosts, and in an all-to-all
// every byte that crosses a link has to.
//
// # Windows
//
// Where the ranks share memory (a Transport that is a Sharer), calls do without
// messages. Alloc gives out buffers that all ranks see, and a call on them reads
// and writes the others' buffers in place; other buffers pass through staging
// windows of 512 KiB a rank and channel. Per rank and n elements:
//
//	call                      meetings    elements read and written
//	AllReduce    at most 16 bytes 1       none: they ride in the meeting
//	             at most 4 KiB    1       n(P+1) read, 2n written
//	             in windows       2       n read, n written: a chunk of all ranks, to all
//	             elsewhere        1 + pieces of 256 KiB    3n each
//	AllGather, AllToAll, Broadcast, Gather
//	             in windows       2       each part once, from where it lies
//	             elsewhere        pieces of 256 KiB        each part twice
//	AllToAllVisit in windows      2       none: visit reads the parts in place
//	AllToAll, small parts         1           none: they ride in the meeting
//	Barrier                       1
//
// (Small: among P ≤ 8 ranks, 8/(P−1) bytes a part.) Up to 8 KiB, or 64 KiB where ranks outnumber cores, parts in windows pass
// through staging windows too: that saves a meeting. Ranks may differ in which of
// their buffers lie in windows. Results have the same bits either way, and the
// same as over messages.
//
// # Order of summation
//
// Chunk i of a reduction is ((x[i+1] + x[i+2]) + … ) + x[i], ranks counted
// modulo P and x[r] being rank r's contribution: the order of the ring. Every
// algorithm keeps it, by messages or in windows. In a group of NewHosts that is
// the order of each host's ranks among themselves; then the hosts' sums are added
// in that order too, each rail's chunk of n by itself: chunk j of it is ((h[j+1] +
// h[j+2]) + … ) + h[j], h[k] being the sum of host k. If every host has one rank,
// or all ranks are on one host, that is the order of a flat group.
//
// All ranks then hold the same bits. They depend on n and on how many ranks are
// where, never on time, transport or algorithm. Where that is not enough, ExactSum
// depends on the numbers alone. Doubling, which keeps no order, is taken only
// where none is needed: for integers, Min and Max. These two return NaN where any
// contribution is NaN; integer sums wrap. A sum of BF16 rounds each partial sum.
// Which NaN comes out of several is not said.
//
// # Rules of use
//
// Every rank makes the same calls in the same order on each channel. Calls of
// one channel are made by one goroutine at a time; different channels are
// independent and may be used at once. Split makes groups of some of the ranks. A
// Comm keeps its scratch memory (one chunk of the largest reduction by Ring, n
// elements for Direct, about n(2+log_R P) where it forwards, n·P for Bruck, which is
// taken where that is little) and its schedule, so that a call repeated allocates
// nothing; calls that return byte strings allocate them.
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
//
// A transport finds calls that differ where a message shows it. Ranks that wait for each
// other without such a message are found by the coordinator of a job, which compares the
// calls that they have begun (Comm.Made, rank.Calls); without one they wait.
package collective

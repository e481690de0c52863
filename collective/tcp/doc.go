// Package tcp is the collective transport between processes, over TCP. Every
// link proves the job's key in both directions when it is made; what then
// travels on it is neither encrypted nor signed, unless Config.Secure says how, as
// package peertls does.
//
// # Links
//
// Between two ranks there are S streams per channel for data, each a connection
// (Config.Streams, one by default), and one for control. The higher rank dials the
// lower. A group of P ranks with C channels has (P−1)(C·S+1) connections, and one
// control reader per peer in each process; no call starts a goroutine, none
// allocates, but that crypto/tls makes two small objects for a record.
//
// On Linux the caller of Exchange moves the bytes itself, straight from and into
// its slices: a segment of 1 MiB out, a segment in, by one vectored system call
// each, header included. While nothing moves it polls for some hundred
// microseconds, giving way to other processes in between, and then sleeps in the
// kernel until either direction can go on. The runtime's poller does not know of
// data connections: a thread of it would wake at each message and take a core from
// a rank. A round inside a host thus costs two system calls a side, and no change
// of thread. Links inside a host use Reno as congestion control.
//
// ExchangeEach serves several links so in one loop: it sends what each takes, receives
// what has come on any, and polls and sleeps for all of them.
//
// Where each rank of the host can have a core, it looks for some thirty microseconds
// before it gives way. A frame tells on which core its sender runs: of two ranks that
// wait for each other on one core, the one of the greater number moves to another.
// Messages of more than 64 KiB leave ranks where the scheduler has them.
//
// A message of 256 KiB a stream or more is cut into as many parts, which move on
// streams of their own, each by a goroutine that waits for its turn: where one core
// cannot fill the link, S can. The bits are the same.
//
// A secured link is a socket too: the caller of Exchange seals four records of 16 KiB
// and sends them by one system call, and receives what is there, up to 128 KiB, and
// opens one, in turns. That costs 0.6 ns a byte on either side on an AMD EPYC (Zen 4),
// half of it AES-GCM, against 0.16 of a plain one.
//
// A message that is to be joined with what is there lands in pieces of 256 KiB, and
// each is joined while the rest is on its way and it is still in a core's cache.
//
// While others have the core for long, it sleeps at once: who wakes gets a core from
// programs that have had theirs, who polls waits behind them. Systems other than
// Linux have a writer goroutine for each link, which sends, and the caller receives.
//
// # Handshake
//
// All integers are little-endian. The dialing rank sends a hello, the accepting
// one answers:
//
//	hello    | "WDLR" | version u16 | link u16 | from u32 | to u32 | size u32 |
//	         | channels u16 | flags u8 | streams u8 |
//	         | generation u64 | nonce [32] |                                  64 bytes
//	answer   | "WDLR" | version u16 | status u16 | nonce [32] | proof [32] |   72 bytes
//	proof    | proof [32] |                                                    32 bytes
//	verdict  | "WDLR" | version u16 | status u16 |                              8 bytes
//
// link is channel·streams + stream, or 0xFFFF for control. Flag 1: links are
// secured, from the verdict on. A status other than 0 says why the link is refused;
// it comes as a verdict, in place of an answer too, and is the last message. The
// first six bytes are the same in every version. A proof is
//
//	HMAC-SHA256(key, role ‖ hello ‖ answer's nonce)     role: "wdlrun tcp accept", "wdlrun tcp dial "
//
// so that it is bound to version, ranks, link, streams, generation and both nonces and
// cannot be reflected or replayed. Proofs are compared in constant time. Nothing
// of a stranger's choice sizes anything, a link that has not proved the key
// within handshakeTime is dropped, and there are at most strangersMax more of
// them than links missing; beyond, the oldest is dropped.
//
// # Data
//
//	frame    | "WDF1" | core u32 | tag [32] | length u64 | payload … |     48 bytes and payload
//
// core is the one that the sender runs on, from 1, where each rank of the host can have
// one, and else 0. The tag is collective.Tag; length is of the whole message, of which the payload is
// the part of this stream: of n streams, part k is from ⌊length/n⌋·k on, rounded down
// to a multiple of 8. A message has min(S, length / 256 KiB) parts, at least one. The
// receiver knows tag and length beforehand and
// ends the group if they differ, so no length is ever taken on trust.
//
// # Control
//
//	frame    | "WDC1" | kind u16 | 0 u16 | length u32 | payload … |     12 bytes and payload
//	abort    1: a cause as collective.AppendCause writes it
//	goodbye  2: no payload; the rank has closed its transport in good order
//	knock    3: no payload; an exchange of the rank stands still
//	process  4: the process id u32, to a peer with the same address
//
// A control connection that ends without goodbye is the loss of its peer. The
// rank that notices a loss or a mismatch, or calls Abort, sends the cause to all,
// and each rank passes the first cause it hears on to all, so that everyone has
// it at once even if its origin dies while sending. A broken data connection
// counts only if the control connection gives no reason within half a second.
// Knocks show that small packets pass where large ones do not (Begun). Ranks in different
// calls whose messages do not meet wait: the coordinator of a job finds them (rank.Calls). Ranks
// that are goroutines of one process find out by process frames, and give way to
// each other instead of to other processes.
//
// # Limits
//
// Losses that send no packet (a cut cable, a host without power) show on the control
// link after its keep-alive time of about 20 s. Data links have no such time: a peer that
// is alive and does not read yet, for however long, is not a loss here. A process needs (P−1)(C·S+1) file descriptors, and 128 KiB for each secured link
// that has received.
package tcp

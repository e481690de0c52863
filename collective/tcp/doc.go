// Package tcp is the collective transport between processes, over TCP. Both ends of a
// link prove the job's key when it is made. Data on a link is neither encrypted nor
// signed, unless Config.Secure is set (see package peertls).
//
// # Links
//
// Between two ranks there are S data streams per channel (Config.Streams, default 1)
// and one control link. Each is a connection, which the higher rank dials. A process has
// (P−1)(C·S+1) connections in a group of P ranks with C channels, and one goroutine per
// peer that reads the control link. No call starts a goroutine. No call allocates,
// except that crypto/tls makes two small objects per record.
//
// On Linux the caller of Exchange moves the bytes itself, directly from and into its
// slices: it sends a segment of up to 1 MiB and receives one, by one vectored system call
// each, header included. While no byte moves it polls for some hundred microseconds,
// yields to other processes in between, and then sleeps in the kernel until one
// direction is ready. Data connections are not registered with the runtime's poller,
// whose thread would wake at each message and take a core from a rank. A round inside a
// host costs two system calls per rank and no thread switch. Links inside a host use Reno
// as congestion control. ExchangeEach serves several links in one such loop.
//
// If each rank of the host can have a core, the caller polls for about thirty
// microseconds before it yields. A frame carries the core of its sender: if two ranks
// that wait for each other share a core, the higher rank moves to another. Messages of
// more than 64 KiB leave ranks where the scheduler has placed them. If other programs
// compete for the core, the caller sleeps at once, because the scheduler prefers a
// thread that wakes to one that has been polling.
//
// A message of at least 256 KiB per stream is cut into S parts, one per stream. Each part
// is moved by a goroutine that waits for its turn. This helps if one core cannot fill
// the link. The result has the same bits.
//
// A message that is to be reduced arrives in pieces of 256 KiB. Each piece is reduced
// while the next is under way and it is still in the cache of a core.
//
// On a secured link, the caller of Exchange seals four records of 16 KiB, sends them by
// one system call, receives up to 128 KiB, and opens one record, in turns. This costs
// 0.6 ns per byte and side on an AMD EPYC (Zen 4), half of it for AES-GCM, compared with
// 0.16 ns on a plain link.
//
// On systems other than Linux, a writer goroutine per link sends, and the caller
// receives.
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
// link is channel·streams + stream, or 0xFFFF for control. Flag 1 means that the link
// is secured after the verdict. A status other than 0 is the reason why the link is
// rejected. It is sent as a verdict, also in place of an answer, and is the last message.
// The first six bytes are the same in every version. A proof is
//
//	HMAC-SHA256(key, role ‖ hello ‖ answer's nonce)     role: "wdlrun tcp accept", "wdlrun tcp dial "
//
// It is bound to version, ranks, link, streams, generation and both nonces, so it can be
// neither reflected nor replayed. Proofs are compared in constant time. No number sent
// before the proof determines the size of an allocation. A connection that has not
// proved the key within handshakeTime is closed. At most unprovenMax such connections
// are kept in addition to the links still missing; then the oldest is closed.
//
// # Data
//
//	frame    | "WDF1" | core u32 | tag [32] | length u64 | payload … |     48 bytes and payload
//
// core is the number of the sender's core plus 1 if each rank of the host can have a
// core, otherwise 0. tag is a collective.Tag. length is the length of the whole message.
// The payload is the part of this stream: with n streams, part k begins at ⌊length/n⌋·k,
// rounded down to a multiple of 8. A message has min(S, length / 256 KiB) parts, at least
// one. The receiver knows tag and length beforehand and ends the group if they differ,
// so it never trusts a length.
//
// # Control
//
//	frame    | "WDC1" | kind u16 | 0 u16 | length u32 | payload … |     12 bytes and payload
//	abort    1: a cause as collective.AppendCause writes it
//	goodbye  2: no payload; the rank has closed its transport properly
//	probe    3: no payload; an exchange of the rank makes no progress
//	process  4: the process id u32, to a peer with the same address
//
// A control connection that ends without goodbye is the loss of its peer. The rank that
// detects a loss or a mismatch, or that calls Abort, sends the cause to all ranks. Each
// rank forwards the first cause that it receives to all, so that all have it even if its
// origin dies while sending. A broken data connection counts only if the control
// connection gives no reason within half a second. Probes show that small packets pass
// where large ones do not (Begun). Ranks in different calls whose messages do not meet
// wait until the coordinator of the job detects them (rank.Calls). Ranks that are goroutines
// of one process recognise each other by process frames, and yield to each other
// instead of to other processes.
//
// # Limits
//
// A loss that sends no packet (a cut cable, a host without power) is detected on the
// control link after its keep-alive time of about 20 s. Data links have no such limit: a
// peer that is alive and does not read is not lost, however long it takes. A process
// needs (P−1)(C·S+1) file descriptors, and 128 KiB for each secured link that has
// received.
package tcp

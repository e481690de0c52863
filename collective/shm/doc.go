// Package shm is the collective transport between processes of one host, over
// memory that they share. It implements collective.Sharer: calls on memory of
// collective.Alloc read and write the other ranks' buffers in place, others take
// one copy in and one out.
//
// # Links
//
// Rank r listens on a Unix socket with an abstract name that follows from the
// job's key; nothing appears in the file system, and nothing is left of it when
// the process ends, however it ends. The higher rank dials the lower. Both ends
// run as the same user and prove the job's key. Messages are packets
// (SOCK_SEQPACKET), integers little-endian:
//
//	hello    | "WDSM" | version u16 | 0 u16 | from u32 | to u32 | size u32 |
//	         | channels u16 | 0 u16 | generation u64 | nonce [32] |            64 bytes, both ways
//	proof    | HMAC-SHA256(key, role ‖ dialer's hello ‖ listener's hello) [32] |   both ways
//	window   | 1 | channel u16 | number u32 | bytes u64 | and a memfd
//	none     | 2 | channel u16 | number u32 | bytes u64 | why there is none …
//	abort    | 3 | a cause as collective.AppendCause writes it
//	goodbye  | 4 |
//
// # Memory
//
// A window is a memfd of its rank: allocated page by page when it is made, so
// that a full memory is an error there and not a fault later; sealed, so that
// nobody can shrink it under the others; handed to every peer over its socket
// and closed as soon as it is mapped. From 2 MiB on it consists of huge pages if the
// system keeps as many ready, and of small ones else. Window 0 of channel 0xFFFF is the rank's
// page: for every channel two posts, a bell, and a ring to every peer.
//
// # Meetings
//
// A post is one cache line: serial, tag, note. A rank posts, then waits for the
// post of the same serial of every peer, and compares tags. Serials are even and
// odd in turn, and so are the two posts: a peer can be one meeting ahead, not
// two. A meeting costs one line written and P−1 read; with two ranks on two
// cores about 0.2 µs.
//
// # Waiting
//
// Where there is a core for each rank, of all that any of them may run on, polls for a
// few microseconds. If the peer waits
// on the same core nevertheless, polls less, and the one of the greater number moves
// to another core now and then. Then polls with sched_yield between,
// which lets the peers run where ranks outnumber cores; then a futex. A wait in a futex ends after
// sleepTime at most, checks whether the group has ended, and waits again.
//
// # Losses
//
// The end of a peer's socket without goodbye is its loss. The rank that notices
// a loss or a mismatch, or calls Abort, sends the cause to all, and each passes
// the first that it hears on to all. A peer that is alive but stands still is not
// a loss here. Ranks that make different calls and do not meet wait: the coordinator of a
// job finds them (rank.Calls).
//
// # Messages
//
// Exchange passes messages through the sender's ring to the receiver in pieces,
// with one copy in and one out. The collectives do not use it; sub-groups do.
//
// # Limits
//
// At most MaxSize ranks on Linux; on other systems Listen returns
// ErrUnavailable. Memory of a rank: its page, about 1 MiB a channel, its staging
// windows, 512 KiB a channel in use, and what collective.Alloc gives out. A
// process maps all of it for all ranks. Peers are trusted once they have proved
// the key: they are the same program and user, and may write to each other's
// windows.
package shm

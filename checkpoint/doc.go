// Package checkpoint writes and reads directories of named sections. P ranks
// write one, each its own file; any number of processes read it. The package
// knows names and bytes and nothing of what they mean.
//
// # Layout
//
//	ROOT/
//	  step-000000412/            a committed checkpoint
//	    rank-0000-of-0002.wck    the sections of one rank
//	    rank-0001-of-0002.wck
//	    MANIFEST.json            what belongs to it; written last
//	  RUN                        ids of the runs that wrote the checkpoints here
//	  .tmp-step-000000500/       one being written
//	  .old-step-000000412/       one being replaced by another of the same step
//	  .del-step-000000300/       one being removed
//
// A root holds one line of training: of two checkpoints the one of the later
// step is taken for the newer. To go back and train on differently, use another
// root.
//
// # A part file, format version 1
//
// All numbers are little-endian; checksums are xxh3-64. The header keeps its
// layout in every version, so that a newer file is known as one.
//
//	offset  size
//	0       8     "WDLRWCK\n"
//	8       4     format version, 1
//	12      4     part, the rank that wrote it
//	16      4     parts, the world size
//	20      4     zero
//	24      8     step
//	32      8     checksum of bytes 0 to 31
//	40      …     payloads of the sections, one after the other, no gaps
//	d       4     directory: number of sections, then for each of them
//	                2  length of the name
//	                …  name, UTF-8
//	                8  offset of the payload from the start of the file
//	                8  length of the payload
//	                8  checksum of the payload
//	d+n     8     trailer: d, the offset of the directory
//	        8     n, its length
//	        8     checksum of the directory
//	        8     "WDLREND\n"
//
// Every byte of a file is either covered by a checksum or must have one value,
// so no change of a single byte goes unseen. Payloads come before their lengths
// because a section is written as a stream whose length nobody knows before.
//
// MANIFEST.json is one JSON object. It starts with its own checksum, taken over
// every byte after the checksum's sixteen digits, and names each part with its
// size and the checksum of its directory; parts of different checkpoints cannot
// be mixed. It holds its step and, as "run", the id of the run that wrote it, 16
// hexadecimal digits. RUN has one such id per line: first the run that writes to
// ROOT, then the runs that [Copy] took checkpoints from. Open rejects a directory
// that is named after another step, or whose run is not in RUN. It accepts every
// run if there is no file RUN or no "run".
//
// Limits: 65536 parts, 2^20 sections and a directory of 64 MiB in a part, names
// of 1 to 1024 bytes of UTF-8 without control characters, a manifest of 16 MiB, 1024
// ids in RUN.
// Every length read is held against the size of the file before it is used.
//
// # One that builds upon another
//
// A checkpoint is full, format version 1, or says in its manifest which one of the
// same root it builds upon, format version 2:
//
//	"base": {"step": 412, "checksum": "a24b323e60aa2743"}
//
// The checksum is the one that the base's manifest starts with, which covers all of
// its files; so nothing else can take its place. Part files are the same in both
// versions. What the sections of an incremental checkpoint mean beside those of its
// base is the caller's affair. Open follows the chain down to the full one, and
// refuses a checkpoint of which any link is missing, damaged or another: Latest then
// falls back to the newest one that is whole. Prune keeps what is still built upon,
// Copy copies it too. A chain has at most 1024 links.
//
// # Atomicity
//
// Ranks write into .tmp-step-N and fsync, then write their trailers and fsync again:
// a part with its trailer is whole, so that ranks need not talk to know (Written).
// One rank then commits: it checks the directories of all parts, writes and fsyncs the manifest and the directory,
// renames it to its final name and fsyncs ROOT. A crash at any point leaves the
// checkpoints that were there and at most directories whose names begin with a
// dot, which Clean removes at the next start. A checkpoint of the same step is
// first renamed to .old-step-N; where a crash leaves only that one, it counts as
// the checkpoint of step N. All of this assumes that a rename is atomic and that
// fsync means what it says.
//
// # Beside the work
//
// A Draft takes a copy of sections, at the speed of memory; they are written to the
// file while the work goes on. A training copies what a step changes as a whole at
// once, and the rest of its part in pieces between steps, in two Drafts by turns.
//
// # Cost, errors, concurrency
//
// Writing costs one pass over the bytes and three fsyncs per rank, one of them at the commit; Open reads
// headers, directories and the manifest; Read and Verify read payloads once. A
// section of less than 64 MiB is held in memory while it is read.
//
// What the world can do (a full disk, a torn file, a missing part) is an error
// that names operation, file, section and offset; errors of the system stay
// visible to errors.Is, so that a full disk is syscall.ENOSPC. Nothing panics.
//
// A Writer belongs to one goroutine, Writers of different parts are independent.
// A Checkpoint is immutable and may be read by many goroutines. Commit, Abandon,
// Clean and Prune of one root are for one process at a time.
package checkpoint

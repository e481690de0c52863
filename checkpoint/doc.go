// Package checkpoint writes and reads directories of named sections. P ranks write a
// checkpoint, each its own file. Any number of processes can read it. The package does not
// interpret the sections.
//
// # Layout
//
//	ROOT/
//	  step-000000412/            a committed checkpoint
//	    rank-0000-of-0002.wck    the sections of one rank
//	    rank-0001-of-0002.wck
//	    MANIFEST.json            names and checksums of its parts; written last
//	    ELSEWHERE                empty, if all parts are on other hosts and the manifest does
//	                             not name these hosts
//	  RUN                        ids of the runs that wrote the checkpoints here
//	  .tmp-step-000000500/       one being written
//	  .old-step-000000412/       one being replaced by another of the same step
//	  .del-step-000000300/       one being removed
//	  .turn-NAME/                the same, of the group of processes that has the turn
//
// A step-N may be a symbolic link to a folder on another disk. Readers follow it; Prune, and a
// commit of the same step, remove the link and not what it leads to. Nothing is written or removed
// through a link in a root: another user who may write there does not choose what changes. The
// other names are never links, and one that is, or a file, is an error. A root that is itself a
// link is used if no other user can have made it.
//
// A root belongs to one training: the checkpoint of the larger step is the newer one. To
// continue differently from an older checkpoint, use another root.
//
// # A part file, format version 1
//
// All numbers are little-endian; checksums are xxh3-64. The header has the
// same layout in every version, so that a newer file is recognised.
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
// Every byte of a file is covered by a checksum or must have a fixed value, so the change of
// any single byte is detected. Lengths follow the payloads because a section is written as a
// stream of unknown length.
//
// MANIFEST.json is one JSON object. It starts with its own checksum, taken over
// every byte after the checksum's sixteen digits, and names each part with its
// size and the checksum of its directory, so parts of different checkpoints cannot
// be mixed. It holds its step and, as "run", the id of the run that wrote it, 16
// hexadecimal digits. RUN has one such id per line: first the run that writes to
// ROOT, then the runs that [Copy] took checkpoints from. The line before them is "checksum "
// and the checksum of the bytes after that line, in sixteen digits. A file of an earlier
// release lacks this line until the next checkpoint is written. Open rejects a directory
// that is named after another step, or whose run is not in RUN. It accepts every
// run if there is no file RUN or no "run".
//
// If the hosts of the ranks do not share ROOT, each has a ROOT with the parts of its ranks and the
// same manifest. "hosts" of a file then names the hosts that hold it. Commit and Adopt write such
// checkpoints, Attach reads the parts of other hosts, and Copy collects them.
//
// Limits: 65536 parts, 2^20 sections and a directory of 64 MiB in a part, names
// of 1 to 1024 bytes of UTF-8 without control characters, a manifest of 16 MiB, 64 hosts of a
// part with names of 256 bytes, 1024 ids in RUN.
// Every length is compared with the size of the file before it is used.
//
// # Incremental checkpoints
//
// A checkpoint is full (format version 1), or its manifest names a base in the same root
// (format version 2):
//
//	"base": {"step": 412, "checksum": "a24b323e60aa2743"}
//
// The checksum is the first one in the base's manifest. It covers all files of the base, so no
// other checkpoint can replace it. Part files are the same in both versions. The caller defines
// how the sections of an incremental checkpoint combine with the sections of its base. Open follows the
// chain to the full checkpoint and rejects it if a link is missing, damaged or different. Latest
// then uses the newest intact one. Prune keeps checkpoints that are still a base, and Copy copies
// them too. A chain has at most 1024 links.
//
// # Atomicity
//
// Ranks write into .tmp-step-N and fsync, then write their trailers and fsync again. A part with
// a trailer is complete, so ranks need no message to know it (Written). One rank then commits: it
// checks the directories of all parts, writes and fsyncs the manifest and the directory, renames
// it to its final name and fsyncs ROOT. A crash at any point leaves the existing checkpoints and
// at most directories whose names begin with a dot, which Clean removes at the next start. A
// checkpoint of the same step is first renamed to .old-step-N. If a crash leaves only that one, it
// counts as the checkpoint of step N. This assumes that rename is atomic and fsync is honest.
//
// # Turns
//
// A group of processes that was believed dead may continue later, while another one writes. If both
// use InTurn, what they write and remove is in a folder of their own below ROOT, .turn-NAME. There is
// one such folder, and TakeTurn renames it. From then on every commit and removal of the earlier
// group fails, because each is a rename from or to the folder that has lost its name.
//
// # Writing in the background
//
// A Buffer copies sections in memory and writes them to the file in the background. A training
// copies what every step changes at once, and the rest of its part in pieces between steps, with
// two alternating Buffers.
//
// # Cost, errors, concurrency
//
// Writing costs one pass over the bytes and three fsyncs per rank, one of them at the commit; Open reads
// headers, directories and the manifest; Read and Verify read payloads once. A
// section of less than 64 MiB is held in memory while it is read.
//
// An error (a full disk, a torn file, a missing part) names operation, file, section and offset.
// errors.Is finds the error of the system, such as syscall.ENOSPC. Nothing panics.
//
// A Writer is for one goroutine. Writers of different parts are independent. A Checkpoint is
// immutable and may be read by many goroutines. Commit, Abandon, Clean and Prune of one root are
// for one process at a time.
package checkpoint

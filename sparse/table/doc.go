// Package table is one rank's part of an embedding table: rows are found by 64-bit keys, inserted on
// first use, trained and saved. It does not communicate and can be used alone. Package sparse shares
// tables between ranks.
//
// # Terms and shapes
//
// A table maps keys from 0 to 2⁶⁴−1 to rows and has no declared size. Every key has an initial row, a
// pure function of (seed, table name, part name, key), which takes memory only after its first
// optimizer step. A row consists of parts, each with its own update rule: for example the deep
// embedding (dim 8, Adam) and the wide weight (dim 1, FTRL) of the same key. In memory a row is one
// record:
//
//	| values of part 0 | values of part 1 | … | state of part 0 | state of part 1 | … |
//	|<---------------- V float32 ---------->|<---------------- S float32 ---------->|
//
// A key's shard is the high bits of a mixed hash of key and table ([ShardOf]). The number of shards is
// fixed for the life of a model. Shards are the unit of placement and of saving.
//
// # Calls
//
// Calls take many keys at once. Find returns a [Row] for each key, Read copies values, Apply takes one
// optimizer step for each distinct key. Find and Read change nothing visible: an absent key reads as its
// initial row, or as zeros if it will not be trained. A [Set] turns the keys of a batch into distinct
// keys, sorted by owner.
//
// [Admit] gives a key a row only after several occurrences. [Evict] removes rows by age,
// score or limit, and Delete removes the given keys. Each shard decides from the sequence
// of steps only, so decisions are the same in every run and on any number of ranks. Tables
// that evict save the stamps and scores of rows and the sketches that count occurrences. A
// table that has loaded them decides like the one that saved them.
//
// Snapshot saves the table as of one step while later steps run, or only the rows that
// changed since an earlier step, which LoadDelta loads: a checkpoint between full ones. A [Watch] copies the rows that changed since its last Take, also while steps run,
// without visiting other rows. OpenTier limits the memory: cold rows move to disk, except
// those that were just read for the next batch.
//
// # The index
//
// Each shard is an extendible hash table (Fagin et al. 1979). Its segments are flat, use linear probing and
// have at most 1024 buckets. A bucket is one cache line: five keys, their rows, the number of keys that
// found no room in it, and 16 bits that mark the hashes of those keys. Find reads a second line only for
// keys in a later bucket and for absent keys with the mark of such a key. A full segment splits. That
// moves at most 4640 keys in some tens of microseconds; nothing larger ever moves, and records never move.
// Each segment has its own threshold, so that segments split one after the other at the same rate at any
// number of keys. The directory is contiguous for all shards, ten bytes per entry, and doubles when a
// segment becomes deeper than any before. A goroutine touches the next pages of large memory ahead of
// use, at most 8 MiB. Find computes where the probes of a group of 16 keys begin, prefetches these
// buckets, and probes while the next group is being fetched.
//
// # Memory
//
// For each key with a row, in bytes:
//
//	index   28.3 to 31 at any number of keys, from about a hundred per shard
//	record  4·(V+S); with bfloat16 values 2·V, rounded up to 4, and 4·S
//	stamp   4
//	score   4, in tables with a HalfLife
//	evicted keys: 12 each, at most 2²² of them, until Forget
//	tier    1 for each row in memory
//	occurrences: Admit.Counters, in shards that have seen a key without a row
//	kept for a snapshot until Close: record, 8, and 24 to 56 of a set, for each key
//	        that a step changes before its shard is saved
//	watched: 16 for each key that changed since the last Take, 8+4·V for each that is taken,
//	        and 2 bits for each row in memory
//
// A shard with few keys takes a bucket of 64 bytes and 92 more, and every shard takes 10. A row on disk keeps
// its index entry, stamp and score in memory. 10⁸ keys of dim 8 with row-wise Adagrad, V+S = 9, take at
// most 7.1 GB. Records, large segments, stamps and scores are outside the Go heap, on Linux in huge pages,
// and the garbage collector does not scan them. The index does not shrink when rows are removed.
//
// # Errors and panics
//
// An error names the table: a gradient that is not finite, a file that does not fit, a full disk. Wrong use
// panics: slices that are too short, a part or shard that does not exist.
//
// # Concurrency
//
// A Table is for one goroutine at a time.
//
// # Formats
//
// [Table.SaveShard] writes the rows of one shard, a [Snapshot] also its [Changes], and
// [Table.SaveSeen] its occurrence counts, little-endian:
//
//	offset  size  content
//	     0     8  "WDLSHARD"
//	     8     4  format version: 1, or 2 with notes
//	    12     4  length h of the description
//	    16     h  description
//	  16+h     4  version 2 only: words of notes k, 1 for the stamp, 2 with the score
//	     …     8  rows n
//	     …     n·(8+4·(V+S)+4·k)  rows by ascending key: key, record, notes
//	     …     4  CRC-32C of everything before it
//
//	     0     8  "WDLDELTA"
//	     8     4  format version: 1, or 2 with notes
//	    12     4  length h of the description
//	    16     h  description
//	  16+h     4  version 2 only: words of notes k
//	     …     8  step after which changes are included
//	     …     8  last step whose changes are included
//	     …     8  rows n
//	     …     8  removed keys m
//	     …     n·(8+4·(V+S)+4·k)  rows by ascending key: key, record, notes
//	     …     8·m  removed keys, ascending
//	     …     4  CRC-32C of everything before it
//
//	     0     8  "WDLSIGHT"
//	     8     4  format version: 1
//	    12     4  length h of the description
//	    16     h  description
//	     …     8  occurrences since the counters were last halved, fewer than the counters
//	     …     8  counters n, a multiple of 8, at most 2³⁶
//	     …     8  length p of what follows, n/8 to 9·n/8
//	     …     p  for each 8 counters: a byte whose bit i is set if counter i is not
//	              zero, and a byte for each counter that is not zero
//	     …     4  CRC-32C of everything before it
//
//	description:
//	     4        shard
//	     4        shards
//	     2+length table name
//	     4        parts, and for each of them
//	     2+length   name
//	     2+length   kind of the update rule
//	     4          dim
//	     4          floats of state
//
// Values are saved as float32, whatever their precision in memory. Equal rows give equal
// bytes. If the description of a file differs from the table's, the error names both.
package table

// Package table is one rank's engine of one embedding table: rows found by
// 64-bit keys, made on first use, trained, saved. It is usable alone and does
// not communicate; package sparse shares tables between ranks.
//
// # Words and shapes
//
// A table maps keys of 0 to 2⁶⁴−1 to rows and declares no size: every key exists
// from the start with a row that is a pure function of (seed, table name, part
// name, key), and takes memory only after its first optimizer step. A row is made
// of parts, stretches of values with their own update rule: say the deep
// embedding (dim 8, Adam) and the wide weight (dim 1, FTRL) of the same key. In
// memory a row is one record
//
//	| values of part 0 | values of part 1 | … | state of part 0 | state of part 1 | … |
//	|<---------------- V float32 ---------->|<---------------- S float32 ---------->|
//
// A key's shard is the high bits of a mixed hash of key and table ([ShardOf]).
// The number of shards is fixed for the life of a model; they are the unit of
// placement and of saving.
//
// # Calls
//
// Calls take many keys at once. Find gives a [Row] for each key, Read copies
// values, Apply takes one optimizer step for each of distinct keys. Find and Read
// change nothing that can be seen: a key that is not held reads as its initial
// row, or as zeros where it will not be trained. A [Set] turns the keys of a batch into distinct ones, sorted by owner.
//
// Which keys get a row and which lose it is the configuration's to say: [Admit]
// waits for several sightings, [Evict] gives up rows by age, score or limit, and
// Delete what it is told. Decisions follow from the steps in order and are made
// in each shard for itself: they are the same on every run and on any number of
// ranks. Stamps and scores of rows are saved with them in tables that evict, and the
// sketches that count sightings beside them: a table that has loaded both decides as the
// one that saved.
//
// Delta gives the rows that changed since a step, and SaveDelta and LoadDelta
// carry them to another table: a checkpoint between full ones.
// Snapshot saves the table of one step while later ones go on. OpenTier bounds the
// memory: cold rows go to disk, all but those that came back for a batch that is not
// trained yet.
//
// # The index
//
// Each shard is an extendible hash table (Fagin et al. 1979) whose segments are
// flat, with linear probing, and have at most 8192 slots of 12 bytes. A segment
// that is full, at a threshold of its own, splits; that moves some five thousand
// keys in some tens of microseconds, and nothing larger ever moves. Thresholds are
// spread so that segments split one after the other, at the same pace at any number of
// keys. Where segments begin, by the first bits of a hash, also stands side by side for
// all shards, ten bytes each; twice as many when a segment lies deeper than any before.
// Records never move at all. Of large memory the next pages, at most 8 MiB, are
// touched by a goroutine beside, as a fresh page costs time. Find says where the
// probes of a group of keys begin, asks for that memory, and looks while that of the next
// groups is on its way.
//
// # Memory
//
// For each key held, in bytes:
//
//	index   28.5 to 31 at any number of keys, from some hundred a shard on
//	record  4·(V+S); with values of bfloat16 2·V, rounded up to 4, and 4·S
//	stamp   4
//	score   4, in tables with a HalfLife
//	given up: 12 for each key, at most 2²² of them, until Forget
//	tier    1 for each row in memory
//	sightings: as many as Admit.Counters, in shards that have seen a key without a row
//	kept for a snapshot until Close: record, 8, and 24 to 56 of a set, for each key
//	        that a step changes before its shard is saved
//
// A shard with few keys takes 96 bytes of slots and 92 more, and any shard 10. On disk a
// row leaves its index entry, stamp and score in memory. So 10⁸ keys of dim 8 with row-wise Adagrad, V+S = 9, take at most 7.1 GB.
// Records, large segments, stamps and scores lie outside the Go heap, on Linux in
// huge pages, and the collector scans nothing of them. The index does not shrink when
// rows go.
//
// # Errors and panics
//
// What the world can do is an error that names the table: a gradient that is not
// finite, a file that does not fit, a disk that is full. What only a wrong program can do panics:
// slices too short, a part or shard that does not exist.
//
// # Concurrency
//
// A Table belongs to one goroutine at a time.
//
// # Formats
//
// [Table.SaveShard] writes the rows of one shard, [Table.SaveDelta] what changed
// in it, [Table.SaveSeen] its sightings, little-endian:
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
//	     …     8  step since which it tells
//	     …     8  step up to which it tells
//	     …     8  rows n
//	     …     8  keys given up m
//	     …     n·(8+4·(V+S)+4·k)  rows by ascending key: key, record, notes
//	     …     8·m  keys given up, ascending
//	     …     4  CRC-32C of everything before it
//
//	     0     8  "WDLSIGHT"
//	     8     4  format version: 1
//	    12     4  length h of the description
//	    16     h  description
//	     …     8  sightings since the counters were last halved, fewer than they
//	     …     8  counters n, a multiple of 8, at most 2³⁶
//	     …     8  length p of what follows, n/8 to 9·n/8
//	     …     p  for each 8 counters: a byte whose bit i says that counter i is not
//	              zero, and a byte for each of those
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
// Values are saved as float32 whatever their precision in memory. Equal rows make
// equal bytes. A file whose description differs from the table's is refused with
// both named.
package table

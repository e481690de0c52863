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
// row. A [Set] turns the keys of a batch into distinct ones.
//
// # Cost
//
// Memory for each key held, in bytes:
//
//	index   15 to 40, about 21 on average: slots of 12 bytes, filled to between
//	        30 % and 80 %; a shard in use has at least 8 slots
//	record  4·(V+S)
//	stamp   4, only in tables with a DenseL2 part
//
// and for each table 40 bytes for each shard, in use or not.
//
// # Errors and panics
//
// What the world can do is an error that names the table: a gradient that is not
// finite, a file that does not fit. What only a wrong program can do panics:
// slices too short, a part or shard that does not exist.
//
// # Concurrency
//
// A Table belongs to one goroutine at a time.
//
// # The format of a saved shard
//
// [Table.SaveShard] writes the rows of one shard, little-endian:
//
//	offset  size  content
//	     0     8  "WDLSHARD"
//	     8     4  format version, 1
//	    12     4  length h of the description
//	    16     h  description
//	  16+h     8  rows n
//	  24+h     n·(8+4·(V+S))  rows by ascending key: key, then the record
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
// Equal rows make equal bytes. A file whose description differs from the table's
// is refused with both named.
package table

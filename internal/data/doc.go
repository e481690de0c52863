// Package data turns files of records into batches of numbers, the same ones
// in the same order whatever the number of ranks.
//
// # From files to batches
//
//	Open    names → Dataset: files, cut into blocks by byte range (package record),
//	        and what of their records is wanted (package schema)
//	Scan    one pass, shared by the ranks: checks every record, counts records
//	        per block and digests every line (Counts), gathers statistics of the
//	        training data (encode.Fit)
//	Merge   Counts and Fit of all parts become one, the same for any number of
//	        parts and any order of merging
//	Reader  batches of one rank, encoded as an encode.Encoder says, read ahead of the
//	        training step
//	Feed    which files, or records of topics, come next where training data grows
//
// # Order
//
// The order of an epoch is a pure function of seed, epoch and the number of
// records per group; see order.go. The position in it is one integer, the rows
// consumed so far, so training resumes exactly on any number of ranks with any
// batch size.
//
//	up to 64 MiB of records   every permutation of the records is as likely; each
//	                          rank reads all of them once and keeps them
//	more, in plain files,     records are drawn from 1,024 random groups at a time;
//	objects or topics         each rank reads its own groups
//	more, packed or Parquet   files or row groups are permuted, and read from their
//	                          beginning; records are permuted within runs of 1,024
//	                          groups; each rank reads everything
//	without shuffling         the order of the files
//
// The size of a record is that in memory, unpacked, plus 32 bytes. A group has
// 64 KiB of consecutive records, and up to 512 KiB where there are more than 16 GiB.
// In training data that grows, this is the order within a span.
//
// # Cost
//
// Scanning and reading are one pass over the bytes each. Memory holds 1,024 groups,
// over all ranks, or the records of a small dataset, and some batches; nothing is
// allocated per record. Records are encoded when their turn comes, so that no step
// waits for the work of a whole window. A Reader
// of several epochs continues from one to the next while training still computes,
// and keeps the encoded rows of a dataset that takes no more than 64 MiB.
//
// How many batches it is ahead, and how many threads encode, follows from what is
// measured: see ahead.go and Reader.Pace.
//
// # Errors, panics, concurrency
//
// What a file or a message from another rank can hold wrong is an error that
// names the file, place, column and value. Nothing here panics on data. A
// Dataset does not change once Use has been called and may be shared; a Reader
// belongs to one goroutine, except Position and Unknown.
package data

// Package data turns files of records into batches of numbers. The batches and their order
// do not depend on the number of ranks.
//
// # From files to batches
//
//	Open    names → Dataset: files, cut into blocks by byte range (package record),
//	        and the fields to read (package schema)
//	Scan    one pass, shared by the ranks: checks every record, counts records
//	        per block and digests every line (Counts), gathers statistics of the
//	        training data (encode.Fit); Parquet column by column (encode.Survey)
//	Merge   Counts and Fit of all parts become one, the same for any number of
//	        parts and any order of merging
//	Reader  batches of one rank, encoded by an encode.Encoder, read ahead of the
//	        training step
//	Feed    which files, or records of topics, come next if training data grows
//
// # Order
//
// The order of an epoch is a pure function of seed, epoch and the number of
// records per group; see order.go. The position in it is one integer, the rows
// consumed so far, so training resumes exactly on any number of ranks with any
// batch size.
//
//	up to 64 MiB of records   all permutations of the records are equally likely;
//	                          each rank reads all of them once and keeps them
//	more, in plain files,     records are drawn from 1,024 random groups at a time;
//	objects or topics         each rank reads its own groups
//	more, packed or Parquet   files or row groups are permuted, and their sequence is cut
//	                          into up to 16 decks, which are read concurrently; records
//	                          are drawn from 1,024 groups at a time; each rank reads its
//	                          decks
//	without shuffling         the order of the files
//	apart                     as many parts as ranks, in the order of the files
//
// The size of a record is its size in memory, decompressed, plus 32 bytes. A group has 64
// KiB of consecutive records, or up to 512 KiB if the data exceeds 16 GiB. In training data
// that grows, this is the order within a span.
//
// # Cost
//
// Scanning and reading take one pass over the bytes each. Memory holds 1,024 groups over all
// ranks, or the records of a small dataset, and some batches. No memory is allocated per
// record. Records are encoded one batch at a time, so no step waits for a whole window. A
// Reader of several epochs continues with the next one while training still computes. It
// keeps the encoded rows of a dataset of at most 64 MiB.
//
// The Reader measures how many batches to read ahead and how many threads to encode with: see
// ahead.go and Reader.Pace.
//
// # Errors, panics, concurrency
//
// Faults of a file or of a message from another rank are errors that name the file, place,
// column and value. Nothing here panics on data. A Dataset does not change once Use has been
// called, and may be shared. A Reader belongs to one goroutine, except Position and Unknown.
package data

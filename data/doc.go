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
// The order of an epoch is a pure function of seed, epoch, the number of
// records per block and the number of lanes; see order.go. The position in it
// is one integer, the rows consumed so far, so training resumes exactly on any
// number of ranks with any batch size. Packed files and Parquet cannot be read
// at random: there every rank unpacks every file and keeps its own records, in
// an order with the same properties. With many ranks plain files are read
// faster.
//
// # Cost
//
// Scanning and reading are one pass over the bytes each; a rank holds the records
// of its share of the shuffle window (by default 131,072 over all ranks) and some
// batches in memory, and allocates nothing per record. Records are encoded when
// their turn comes, so that no step waits for the work of a whole window. A Reader
// of several epochs goes on from one to the next while training still computes,
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
//
// The lanes' positions rest on Hermite's identity: the sum over s of
// ⌊(x+s)/S⌋ for s = 0 … S−1 is x.
package data

// Package data turns files of records into batches of numbers, the same ones
// in the same order whatever the number of ranks.
//
// # From files to batches
//
//	Open    names → Dataset: files, cut into blocks by byte range; a name is a
//	        path, a file:// URL, a glob, a folder (the files directly in it, sorted by name,
//	        without those that begin with . or _) or builtin:NAME
//	Scan    one pass, shared by the ranks: checks every record, counts records
//	        per block and digests every line (Counts), gathers statistics of the training data (Fit)
//	Merge   Counts and Fit of all parts become one, the same for any number of
//	        parts and any order of merging
//	Encoder schema + Fit: which key or number each field becomes; kept with the
//	        model
//	Reader  batches of one rank, read ahead of the training step
//
// A Batch of B rows holds Dense, B × D numbers row by row; Sparse, F jagged
// lists of 64-bit keys (features, then crosses); Label, B numbers that are 0 or
// 1; and RowID, the number of each record in the order of the source.
//
// # Records
//
// Source.Format says what a record is (see format.go for what a format is made
// of):
//
//	csv, tsv          a line; fields are cut at a delimiter. Spaces and tabs
//	                  around a field are dropped. In csv a field may stand in
//	                  double quotes and may then hold delimiters and doubled
//	                  quotes, but no line break. In tsv quotes are ordinary
//	                  bytes. The header and lines that start with the comment
//	                  mark are no records.
//	criteo            tsv with the fields label, I1 … I13, C1 … C26
//	tfrecord          a tf.Example in TFRecord frames; fields are its features
//	jsonl             a line: a JSON object; fields are its members, values or lists of
//	                  them (see package jsonl). Members that are objects are no fields
//	parquet           a row; fields are flat columns and lists of plain values
//	libsvm, libffm    a line: label index:value …, label field:index:value …;
//	                  see svm.go for the names of their fields
//
// A line ends in LF or CRLF, or at the end of the file; it is at most 1 MiB
// long, and blank ones are no records. A field may hold several values: as a
// list, or as one text that Feature.Separator cuts; Feature.Weights names a
// field with a number for each of them. A value is missing if there is none, or
// it is empty or listed in Source.Missing. Integers and numbers count as the
// text they are written as in decimal, so a column gives the same keys in every
// format.
//
// A file may be packed with gzip, zstd or snappy (framed), which is told by how
// it begins.
//
// A record that cannot be used is told with its place: line, row, or offset
// of the unpacked bytes. Up to Source.MaxBad of them, over all ranks, are left out, in
// every pass the same ones.
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
// # Keys
//
// Vocabulary and hash use the 64-bit xxh3 hash of the value with a fixed seed,
// so features that share a table share keys. KeyMissing stands for a missing
// value, KeyUnknown for one that is not in the vocabulary; the key of a cross
// is the hash of the keys it combines. Quantile and boundaries use the number
// of the interval: interval i is [limit i−1, limit i).
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
// Dataset and an Encoder do not change once Use has been called and may be
// shared; a Reader belongs to one goroutine, except Position and Unknown.
//
// The lanes' positions rest on Hermite's identity: the sum over s of
// ⌊(x+s)/S⌋ for s = 0 … S−1 is x.
package data

// Package encode turns the fields of records into keys and numbers, and these into batches.
//
//	Fit       statistics of the training data that encodings need: mergeable, the same
//	          for any number of parts
//	Encoder   schema + Fit; kept with the model
//	RowCoder  checks records and encodes them as rows; common records of csv, tsv and
//	          TFRecord in one pass over their bytes
//	Batcher   moves rows into the columns of a Batch
//	ColumnCoder  makes a Batch of requests, field by field; values that all rows share
//	          are encoded once
//	Columns   makes a Batch of Parquet data, column by column
//
// A Batch of B rows holds Dense, B × D numbers row by row; Sparse, F jagged
// lists of 64-bit keys (features, then crosses); Label, B numbers that are 0 or
// 1; and RowID, the number of each record in the order of the source.
//
// # Values
//
// A field may have several values, as a list or as one string split at Feature.Separator.
// Feature.Weights names a field with a weight for each value, in the same place of its list.
// A value is missing if it is absent, empty, or listed in Source.Missing. Integers and numbers
// are encoded as their decimal strings, so a column has the same keys in every format.
//
// # Keys
//
// Vocabulary and hash use the 64-bit xxh3 hash of the value with a fixed seed,
// so features that share a table share keys. A hashed value is first written in a form of the
// training data (see forms.go). KeyMissing is the key of a missing
// value, KeyUnknown the key of a value that is not in the vocabulary, in no
// spelling (see spelling.go). The key of
// a cross is the hash of the keys it combines. Quantile and boundaries use the number
// of the interval: interval i is [limit i−1, limit i).
//
// # Errors, panics, concurrency
//
// Faults of a record, a feature index or a message from another rank are a record.Flaw or
// an error. Nothing here panics on data. An Encoder does not change and may be shared. The
// coders belong to one goroutine each and allocate nothing per record.
package encode

// Package write writes tables of records in the formats that package record reads.
//
//	csv, tsv   a header, unless Layout.NoHeader; then a line a record. The values
//	           of a list are joined by |. csv quotes what it must, line breaks too
//	criteo     tsv without a header
//	tfrecord   a tf.Example a record; missing values are left out
//	jsonl      a JSON object a line, with every column: null is missing, a column of
//	           lists an array
//	parquet    optional and list columns, row groups of 65,536 rows
//	libsvm     label index:value …; column i is the index i, counted from 1, of
//	           those that are not the label; a column "features" of integers
//	           with "values" beside it is written as the pairs that it is
//	libffm     label i:index:value …; an integer of column i is its index, of
//	           value 1; any other number is the value of the index 0
//
// What is written is read back as the same values, as text that is. A number in a
// tf.Example has 32 bits: a column of other numbers must be one of texts. What a format
// cannot hold,
// such as a line break in tsv, is an error and never silently changed: it
// names the column.
//
// A missing value and an empty text are the same in package data, and so they
// are here.
//
// A Writer belongs to one goroutine, keeps nothing of what it is given, and
// allocates nothing per record, Parquet aside.
package write

// Package write writes tables of records in the formats that package record reads.
//
//	csv, tsv   a header, unless Layout.NoHeader; then one line per record. The values
//	           of a list are joined by |. csv quotes if necessary, also line breaks
//	criteo     tsv without a header
//	tfrecord   one tf.Example per record; missing values are omitted
//	jsonl      one JSON object per line, with every column; a missing value is null,
//	           a column of lists is an array
//	parquet    optional and list columns, row groups of 65,536 rows
//	arrow      an Arrow IPC file of such columns, in batches of 65,536 rows
//	avro       an Avro file of such columns, in blocks of 1 MiB; gzip means deflate
//	libsvm     label index:value …; the index is the number of the column, counted
//	           from 1 without the label; the integers of a column "features" are
//	           written as indices of the values in a column "values"
//	libffm     label i:index:value …; an integer in column i is an index with value 1;
//	           any other number is the value of index 0
//
// Values are read back as the same strings. A number in a tf.Example has 32 bits, so a
// column of wider numbers must be written as strings. A value that the format cannot
// represent, such as a line break in tsv, is an error that names the column.
//
// A missing value and an empty string are the same, as in package data. Missing values of a list
// keep their places as nulls (in csv and tsv, as empty values between |). tfrecord, libsvm and
// libffm cannot hold them; such a list is an error.
//
// A Writer belongs to one goroutine, retains none of its arguments, and allocates nothing per
// record, except for Parquet, Arrow and Avro.
package write

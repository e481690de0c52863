// Package record reads files of records of any supported format and from any source.
//
// # Files
//
// A name is a path, a file:// URL, a glob, a folder (the files in it and in its folders, sorted
// by name, without those that begin with . or _), builtin:NAME, or the address of an object
// or a topic. Folders NAME=VALUE are fields of all records of their files (partition.go). A Set contains the files of some names, in one format, cut into blocks by
// byte range. A file may be compressed with gzip, zstd, snappy (framed), lz4 or bzip2, which its
// first bytes show, or by a codec of Hadoop, which only its name shows (unpack.go).
//
// # Records
//
// Source.Format determines what a record is (format.go lists what a format defines):
//
//	csv, tsv          a line; fields are separated by a delimiter. Spaces and tabs
//	                  around a field are dropped. In csv a field in double quotes
//	                  may contain delimiters, doubled quotes and, with
//	                  Source.Multiline, line breaks. In tsv quotes are ordinary
//	                  bytes. The header and lines that begin with the comment
//	                  mark are not records.
//	criteo            tsv with the fields label (or none), I1 … I13, C1 … C26
//	tfrecord          a tf.Example or tf.SequenceExample in TFRecord frames; fields are its
//	                  features and feature lists
//	jsonl             a line: a JSON object; fields are its members, values or lists of
//	                  them (see package jsonl). Members that are objects are skipped
//	parquet, arrow,
//	avro              a row; fields are flat columns and lists of plain values
//	libsvm, libffm    a line: [label] index:value …, [label] field:index:value …;
//	                  see svm.go for the names of their fields
//
// A line ends in LF or CRLF, or at the end of the file. It has at most 1 MiB. Blank lines are
// not records.
//
// A malformed record is a Flaw. With its place (line, row, or offset in the decompressed
// bytes) it is a Fault. The records after it can be read.
//
// Files is a set without a schema, for commands that show, count or convert records.
package record

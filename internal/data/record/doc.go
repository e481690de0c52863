// Package record reads files of records, whatever their format and wherever they are.
//
// # Files
//
// A name is a path, a file:// URL, a glob, a folder (the files directly in it, sorted by
// name, without those that begin with . or _), builtin:NAME, the address of an object
// or of a topic. A Set is the files of some names, in one format, cut into blocks by
// byte range. A file may be packed with gzip, zstd or snappy (framed), which is told by
// how it begins.
//
// # Records
//
// Source.Format says what a record is (see format.go for what a format is made
// of):
//
//	csv, tsv          a line; fields are cut at a delimiter. Spaces and tabs
//	                  around a field are dropped. In csv a field may stand in
//	                  double quotes and may then hold delimiters and doubled
//	                  quotes, and line breaks with Source.Multiline. In tsv
//	                  quotes are ordinary bytes. The header and lines that start
//	                  with the comment mark are no records.
//	criteo            tsv with the fields label, I1 … I13, C1 … C26
//	tfrecord          a tf.Example in TFRecord frames; fields are its features
//	jsonl             a line: a JSON object; fields are its members, values or lists of
//	                  them (see package jsonl). Members that are objects are no fields
//	parquet           a row; fields are flat columns and lists of plain values
//	libsvm, libffm    a line: label index:value …, label field:index:value …;
//	                  see svm.go for the names of their fields
//
// A line ends in LF or CRLF, or at the end of the file; it is at most 1 MiB
// long, and blank ones are no records.
//
// A record that cannot be used is a Flaw, and a Fault once its place is known: line, row,
// or offset of the unpacked bytes. Those behind it can be read.
//
// Files are such a set without a schema, for those who show, count or convert records.
package record

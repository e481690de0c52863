// Package export writes trained models as self-contained directories and opens them for
// scoring.
//
// # Model directories
//
// A model is MODELS/NAME/VERSION: a directory of files that do not change once it has that
// name. Write makes the directory under a temporary name, writes MANIFEST.json last, makes
// everything durable and renames it. A reader therefore sees a whole version or none.
//
//	MANIFEST.json    names, sizes and checksums of the other files; the signature
//	config.yaml      the configuration of the training
//	encoder.json     the feature index: vocabularies and statistics, see package encode
//	dense.bin        the dense parameters without optimizer state, see package dense
//	table-0000.bin   the rows of the first table, and so on
//	warmup.tfrecord  the first records of the training data as tf.Example, with the fields
//	                 that the model reads; absent if the data could not be read
//
// MANIFEST.json begins with the xxh3-64 of the text after its sixteen digits, as in a
// checkpoint. It lists the sections of each file in order, without gaps, each with its
// length and xxh3-64. So every byte of a model is covered by a checksum.
//
// # Tables
//
// A table is a file of two sections. All numbers are little-endian. Each section is padded
// with zeros to a multiple of 64 bytes. The manifest has the number of rows n, the values of
// a row V and the lines of the index m.
//
//	rows   n·(8+s)  n records: the key, uint64, and its row of s bytes
//	index  m·64     m lines
//
//	a line: first    uint32       number of records in the lines before
//	        records  uint32       number of records of the line
//	        pilots   28 × uint16  by bucket
//
// The hash h of a key is mix(key XOR salt), where mix is the finalizer of SplitMix64 and the
// salt is table.Salt of the table's name. The line of a key is ⌊h·m/2⁶⁴⌋. Its bucket is
// ⌊r·28/2⁶⁴⌋, where r is h·m mod 2⁶⁴. With the pilot p of the bucket, its place among the
// records of the line is
//
//	⌊(h·(p·0x9e3779b97f4a7c15 OR 1) mod 2⁶⁴)·records/2⁶⁴⌋
//
// No other place of the table can have the key, unless p is 65535: then all records of the line
// have to be searched, because no pilot was found. A lookup thus reads one line of the index
// and one record.
//
// A row holds its parts in order. A part of one value, such as a wide weight, is a float32
// in every type.
//
//	float32   V float32
//	bfloat16  parts of one value as float32; then the other parts as bfloat16, rounded to
//	          the nearest; zeros up to s
//	int8      for each part in order a float32: the value of a part of one value, the scale of
//	          another; then the other parts as int8; zeros up to s. A value is scale·int8, and
//	          the scale is the largest magnitude of the part over 127
//
// # Changes
//
// A training publishes versions that contain the changes since the previous version
// (Publisher). Their manifest names that version. They have dense.bin, and delta.bin with the
// two sections of each table in float32. A row that table.IsUnknown recognises marks a key
// whose row was removed.
//
// An open version consists of the tables of a complete version and layers of changes. If the
// previous version is open, its tables and layers are shared. Otherwise the latest complete
// version is opened, and the changes since then are read. A key is looked up in the table and
// in each layer. Layers are merged so that each is at least three times larger than the next
// one. So there are few layers.
//
// # Cost
//
// Opening a complete model reads it once to verify the checksums. Tables stay mapped: processes that
// open the same version share its pages, and rows that are never read can leave memory. The
// heap holds the vocabularies and the dense parameters.
//
// # Errors
//
// An error names the file and the section or offset. The files of an open model must not be
// changed in place: other bytes give other scores. If a file is cut short, reading one of its
// former pages is an error.
package export

// Package delta reads the log of a Delta table: which files belong to a version, with their
// partition values and deleted rows, and the names of their columns. It follows the protocol
// https://github.com/delta-io/delta/blob/master/PROTOCOL.md:
//
//	_delta_log/00000000000000000010.checkpoint.parquet    the state at version 10
//	_delta_log/00000000000000000011.json                  the changes of version 11
//	                                                      …
//
// A commit contains one JSON object a line, an action: add and remove of a file, metaData (schema,
// partition columns) and protocol (what a reader must understand). Other actions do not concern
// readers. The newest checkpoint whose parts are all there is read first, then every later commit.
//
// A table that needs a feature that this package does not know is an error that names it. So is a
// log with a gap. Everything that the log names is bounded: see limits.
package delta

// Package arrow reads selected columns of Arrow IPC files and streams, also called Feather (version
// 2). A table.File made of a File gives their rows the form and the texts of Parquet's.
//
//	file:   ARROW1 and two zeros · stream · footer · its length, 4 bytes · ARROW1
//	stream: messages: schema, then record batches and dictionaries
//	message: -1, 4 bytes · length, 4 bytes · metadata, a FlatBuffer · body, the buffers of columns
//
// Only the buffers of the selected columns are read. They may be compressed with LZ4 or Zstandard.
// A group is a record batch, or several small ones in a row. Dictionaries may grow (deltas), and in
// a stream they may be replaced.
//
// Columns are plain values, lists of them, members of structs and of lists of structs, named struct.member,
// and the keys and values of maps. Unread lists unions, durations, intervals, run-end encoded columns, lists of
// lists, and extension types whose values are not those of their storage.
//
// Lengths and offsets that a file states are checked before they are used: a damaged file is an
// error with the place, never a panic. A batch has at most 2^26 rows, a buffer 1 GiB, a message
// 64 MiB of metadata. A File belongs to one goroutine.
package arrow

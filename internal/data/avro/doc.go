// Package avro reads selected columns of Avro object container files. A table.File made of a File
// gives their rows the form and the texts of Parquet's.
//
//	Obj 1 · metadata, a map with avro.schema and avro.codec · mark, 16 bytes
//	blocks: number of records · number of bytes · records, packed as a whole · the mark
//
// The schema is a record. Its fields are columns: plain values, arrays of them, members of records and of
// arrays of records, named record.member, and the keys and values of maps, each also in a union with null.
// Unread lists other unions, arrays of arrays, and records in themselves. A group is some blocks in a row.
// Blocks may be packed with deflate, snappy, zstandard or bzip2.
//
// A schema has at most 1 MiB, a block 256 MiB, unpacked, and 2^26 records. A damaged file is an error
// with the number of the block. A File belongs to one goroutine.
package avro

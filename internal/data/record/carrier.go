package record

import (
	"bytes"
)

// reshaped is what readers change in the records of a file.
type reshaped struct {
	carried  *carried  // partitions that they add; nil: none
	arranged *Arranged // the order of the fields of a line; nil: that of the set
}

// carrier adds the partitions of the current file to records.
type carrier struct {
	of     *carried // nil: none
	buffer []byte
}

// join returns a record with the partitions of its file. It is valid until the next call.
func (c *carrier) join(record []byte) []byte {
	of := c.of
	if of == nil {
		return record
	}
	if !of.object {
		c.buffer = append(append(c.buffer[:0], record...), of.added...)
		return c.buffer
	}
	rest := bytes.TrimLeft(record, " \t\r")
	if len(rest) == 0 || rest[0] != '{' {
		return record // the decoder reports it
	}
	c.buffer = append(c.buffer[:0], of.added...)
	if rest = bytes.TrimLeft(rest[1:], " \t\r"); len(of.added) > 1 && (len(rest) == 0 || rest[0] != '}') {
		c.buffer = append(c.buffer, ',')
	}
	c.buffer = append(c.buffer, rest...)
	return c.buffer
}

// carried are the partitions of a file in the form of its format. Readers of records add them
// to each record, so that decoders find them like other fields:
//
//	csv, tsv           the last fields of the line
//	jsonl              the first members of the object
//	tfrecord           a second message, which protobuf merges with the first
//	libsvm, libffm     after svmTail: the values, in the order of the names, each after svmNext
//	parquet            columns of one value
type carried struct {
	names  []string
	values [][]byte // nil: missing
	added  []byte
	object bool // added begins an object
}

// Partition is a field that a folder NAME=VALUE gives to all records of the files in it, as
// Hive and Spark name them.
type Partition struct {
	Name, Value string
	Missing     bool // __HIVE_DEFAULT_PARTITION__, or no value
}

package schema

import (
	"fmt"
	"slices"
)

// formats lists the names used in a configuration; the first is the default.
var formats = [...]string{
	"csv",
	"tsv",
	"criteo",   // TSV in Criteo's layout: label (or none), I1 … I13, C1 … C26
	"tfrecord", // records are tf.Examples
	"jsonl",    // JSON objects, one per line
	"parquet",  // flat and list columns
	"arrow",    // Arrow IPC file or stream, as parquet
	"avro",     // Avro object container file, as parquet; of topics, records
	"protobuf", // of topics: messages
	"libsvm",   // [label] index:value …
	"libffm",   // [label] field:index:value …
}

// Formats returns the names of the formats, the default first.
func Formats() []string { return slices.Clone(formats[:]) }

// FormatName returns the name of the source's format.
func (s Source) FormatName() string {
	if s.Format == "" {
		return formats[0]
	}
	return s.Format
}

// HasLayout reports whether delimiter, header, names of fields and comment mark are
// configured. For other formats these settings must not be given.
func (s Source) HasLayout() bool {
	return s.FormatName() == "csv" || s.FormatName() == "tsv"
}

// What a backslash escapes in csv and tsv.
const (
	EscapeQuoted = "quoted" // quotes and backslashes in quotes, as Spark writes
	EscapeAll    = "all"    // any byte, as MySQL, MariaDB, PostgreSQL and Hive write; \N is missing
)

// Escapes returns the choices of Source.Escape.
func Escapes() []string { return []string{EscapeQuoted, EscapeAll} }

// NamesFields reports whether files of the format contain the names of their fields.
func NamesFields(format string) bool {
	return IsTyped(format) || format == "tfrecord" || format == "jsonl" || format == "protobuf"
}

// IsTyped reports whether files of the format have columns of types, in groups of rows.
func IsTyped(format string) bool { return format == "parquet" || format == "arrow" || format == "avro" }

// CriteoFields returns the fields of Criteo's display advertising logs.
func CriteoFields() []string {
	names := []string{"label"}
	for i := 1; i <= 13; i++ {
		names = append(names, fmt.Sprintf("I%d", i))
	}
	for i := 1; i <= 26; i++ {
		names = append(names, fmt.Sprintf("C%d", i))
	}
	return names
}

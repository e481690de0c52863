// Package registry decodes values of topics in the wire format of schema registries, by schemas that
// it fetches once.
//
//	Avro      0 · schema id, 4 bytes, highest first · record
//	Protobuf  0 · schema id · indexes · message
//	indexes   number of them · the index of a message in the file, then of the one in it, and so
//	          on; each a varint in zigzag. 0 alone is the first message
//	JSON      0 · schema id · JSON; the schema is not needed
//
// The header __value_schema_id of a record may have what precedes the message instead: as above, or
//
//	1 · GUID of the schema, 16 bytes · indexes, of Protobuf
//
// Schemas are fetched from a registry with the interface of Confluent's (also Karapace, Redpanda,
// Apicurio), or are files: a folder with ID.avsc and ID.desc (or GUID), or one file for all values. Protobuf
// needs descriptors: the registry is asked for format=serialized, and a file is a FileDescriptorSet,
// as protoc --include_imports -o writes it.
//
// # Fields
//
// A record's fields are found by their names in the schema with which it was written. A field that
// this schema does not have is None. Members of records and messages are named record.member. Avro has
// the values that package table defines. Protobuf:
//
//	integers                   Int; Text from 2^63 on
//	float, double              Float64; a narrow number is its shortest decimal
//	bool, enum, string, bytes  Text: true, the name of the value (else its number), bytes as table has them
//	Timestamp                  Text: 2024-05-01 12:34:56.5+00
//	Duration                   Float64, in seconds
//	Int64Value and so on       their value, or None
//	repeated                   a list
//	not set                    None, if the field has presence and no default; else the default
//
// The fields of a list of messages are lists, list.field, and so are the keys and values of a map,
// map.key and map.value, in the order of the keys. Other maps, and lists or messages in a list of
// messages, are not read; a record that is to be read with such a field is faulty.
//
// A value may have several records, one for each element of a list (New). The fields of an element are then named
// list.field, and may be lists, records and messages themselves. Records of a value repeat at most 1 GiB of its other fields.
//
// # Errors, limits and concurrency
//
// A value that cannot be read is a Flaw: no frame, an id or message that does not exist, a damaged
// message. A registry that does not answer is waited for, 20 seconds or, after Wait, without limit.
// An answer has at most 4 MiB, 4,096 schemas are kept, and a schema has at most 256 references.
// Several goroutines may use Schemas; a Decoder belongs to one. Nothing panics on data.
package registry

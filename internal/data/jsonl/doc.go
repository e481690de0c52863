// Package jsonl reads and writes records that are JSON objects (RFC 8259), one per line or
// one per message. It works on bytes in memory and does no I/O.
//
//	{"user": 17, "item": "a-9", "tags": ["x", "y"], "price": 2.5, "click": true, "ref": null}
//
// A member of the object is the field of that name. The members of an object in it are fields
// with its name, a point and theirs: {"user": {"id": 17}} has the field user.id. The name of such
// an object has at most 255 bytes. Members that no feature reads are checked against the grammar
// and skipped. If a name occurs twice, the last one counts.
//
//	JSON                              becomes
//	string                            Text; escapes are decoded, other bytes kept
//	number without point, exponent    Int; Text with its digits beyond 64 bits
//	any other number                  Float64; Text if 64 bits cannot hold its digits
//	true, false                       Text, as in other formats
//	NaN, Infinity, -Infinity          Float64; Python writes them
//	null, an empty array              None
//	array                             a list of these; List.Nulls has the places of nulls
//	object                            its members; an error if a field has its name
//	objects in an array               lists of their members, with a null for each without one
//	array in either                   an error if the field is needed
//
// The values of a list have one kind. Integers among numbers become numbers if that is
// exact. Any other mixture becomes Text, written as value.List.Append does.
//
// The parser is strict: comments, single quotes, trailing commas, control characters
// in strings, and anything after the object are errors with the byte offset. The maximum
// nesting depth is 128.
//
// Nothing is allocated per record once the lists of the caller have grown. A Decoder
// belongs to one goroutine. Nothing panics on data.
package jsonl

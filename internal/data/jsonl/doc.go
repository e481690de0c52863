// Package jsonl reads and writes records that are JSON objects (RFC 8259), as
// event logs and topics hold them: one a line, or one a message. It works on
// bytes in memory and does no I/O.
//
//	{"user": 17, "item": "a-9", "tags": ["x", "y"], "price": 2.5, "click": true, "ref": null}
//
// A member of the object is the field of that name. Members that no feature reads are
// checked against the grammar and skipped. If a name occurs twice, the last one counts.
//
//	JSON                              becomes
//	string                            Text; escapes are undone, other bytes stay as they are
//	number without point, exponent    Int; Text with its digits past 64 bits
//	any other number                  Float64
//	true, false                       Int 1, 0
//	null, an empty array              None
//	array                             a list of these; nulls in it are left out
//	object, array in an array         an error, if the field is wanted
//
// The values of a list are of one kind: integers among numbers become numbers
// if that is exact, and any other mixture becomes Text, written
// as value.List.Append does.
//
// Strict where a lenient reader would guess: comments, single quotes, trailing
// commas, NaN, control characters in strings, and anything behind the object are
// errors, with the byte. Nesting is followed 128 deep.
//
// Nothing is allocated per record once the lists of the caller have grown. A
// Decoder belongs to one goroutine, and nothing panics on data.
package jsonl

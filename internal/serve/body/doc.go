// Package body reads and writes the JSON of TensorFlow Serving's REST API.
//
//	{"signature_name": "…", "instances": [{"age": 17, "tags": ["a", "b"]}, …]}
//	{"signature_name": "…", "inputs": {"age": [17, 38], "tags": [["a"], ["b", "c"]]}}
//	{"context": {"country": "CH"}, "examples": [{"age": 17}, …]}
//
// A value is a number, a string, true, false, {"b64": "…"} for bytes, or a list of these.
// null is a missing value. NaN, Infinity and -Infinity are numbers. Values become the lists
// that the same JSON gives in training data, see package jsonl: an integer of 64 bits stays
// one, another number is a 64-bit floating point number, true is 1.
//
// The text is read in one pass; lists and objects nest to a fixed depth. A fault names the
// byte.
package body

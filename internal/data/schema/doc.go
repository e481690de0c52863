// Package schema says what a configuration wants of records: where they are and how
// they are written (Source), which field is the label (Label), and which become inputs
// of the model and how (Feature, Cross). It reads nothing.
//
// A Schema is filled when what was left out is in it (Fill). Validate returns
// everything that is wrong at once.
package schema

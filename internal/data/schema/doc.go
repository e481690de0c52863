// Package schema describes the records of a configuration: where they are and in which format
// (Source), the label (Label), and the inputs of the model (Feature, Cross). It does no I/O.
//
// Fill sets defaults. Validate returns all faults at once.
package schema

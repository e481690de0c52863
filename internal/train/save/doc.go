// Package save keeps a training in its run directory: the checkpoints of the training, and the
// log of the microbatches that counted.
//
//	sections        sections of a checkpoint without parameters
//	contents        Contents, the sections of a chain of checkpoints
//	pruning         Prune
//	commits         CommitLog, from which a run is replayed
//
// All functions except the log's return their errors. If the log cannot be written,
// the user is warned once and training continues.
package save

// Package save keeps a training on disk: the run directory and its lock, the checkpoints
// of the training, and the log of the microbatches that counted.
//
//	run directory   NewRunDir, RunDirOf, CheckPlace, Lock, WriteFile
//	sections        sections of a checkpoint without parameters
//	contents        Contents, the sections of a chain of checkpoints
//	pruning         Prune
//	commits         CommitLog, from which a run is replayed
//
// All functions except the log's return their errors. If the log cannot be written,
// the user is warned once and training continues.
package save

// Package wdl is a whole training of a Wide & Deep model (Cheng et al. 2016, "Wide &
// Deep Learning for Recommender Systems") on a group of ranks: the one place where data,
// plan, steps and checkpoints meet.
//
//	config      what is trained, on what, how                  internal/wdl/config
//	layout      which table and column every input has         internal/wdl/layout
//	plan        what the training will need, who owns what     internal/wdl/plan
//	input       data sets, encoder, readers, streams           internal/wdl/input
//	step        pull, compute, push, sync, update; models      internal/wdl/step
//	save        run directory, checkpoints, log of commits     internal/wdl/save
//	report      result, metrics.jsonl, slow ranks, doubts      internal/wdl/report
//	job         this package
//
// Data flows from input to step, and from there to save and report. None of them knows the
// job, which opens them and loops. Four parts of the job have a file each. They work on the
// state that they share (run.go) and do not know the job either:
//
//	saves       when checkpoints begin, which are kept         saving.go
//	validation  evaluation during the training                 validate.go
//	spans       the epochs of a stream                         stream.go
//	healing     resuming from memory after the loss of ranks   heal.go
//
// Job is a training, from the configuration to the run directory; Evaluation the
// figures of a trained model; Indexing the encodings of data alone. Every rank of a
// group makes the same calls.
//
// # A training
//
//	brief       rank 0 resolves configuration and options for all
//	survey      ranks scan the data, each a part, and fit the features
//	plan        rank 0 looks at a sample; all learn strategies and owners
//	loop        epoch by epoch: steps, checkpoints during them, validation
//	finish      the best epoch, the test, result.json and the timeline
//
// A group that has lost a rank resumes from memory (heal, with Options.Replicas) or
// from the last checkpoint; one that leaves slow ranks behind can be repeated from its
// log (replay).
//
// # Determinism
//
// The same seed and world size give the same bits, whatever the timing, and so
// does a training that was interrupted and resumed. Other world sizes train on
// the same samples in the same steps; sums over ranks then round differently.
//
// # Errors
//
// Faults of configuration, data, checkpoints and peers are errors that name the
// place. A loss that is no finite number ends the job and names the dense input,
// the table and key, or the layer where it arose. A checkpoint that cannot be
// written is reported and training continues. Nothing panics on what the world
// can do.
package wdl

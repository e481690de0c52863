// Package train trains a Wide & Deep model (Cheng et al. 2016, "Wide & Deep Learning for
// Recommender Systems") on a group of ranks. It combines data, plan, steps and checkpoints
// into a job.
//
//	config      model, data and training of a job              internal/config
//	layout      table and column of every input                internal/model/layout
//	plan        expected memory and traffic, owners of shards  internal/model/plan
//	input       data sets, encoder, readers, streams           internal/train/input
//	step        pull, compute, push, sync, update; models      internal/model/step
//	save        run directory, checkpoints, log of commits     internal/train/save
//	report      result, metrics.jsonl, slow ranks, warnings    internal/train/report
//	evaluate    metrics of a model on a data set               internal/train/evaluate
//	job         this package
//	apply       eval and predict, with a trained model         internal/train/apply
//
// Data flows from input to step, and from there to save and report. None of these packages
// depends on the job, which opens them and runs the loop. apply depends on the job only to load
// a model. tests/house/rooms.txt lists the files of this package in order, and a file uses only the
// files below it. Four parts of the job have a file each. They use only the shared state of
// run.go:
//
//	saves       start and retention of checkpoints             saving.go
//	validation  evaluation during the training                 validate.go
//	spans       the epochs of a stream                         stream.go
//	healing     resuming from memory after the loss of ranks   heal.go
//
// Job is a training, from the configuration to the run directory (train.go, loop.go, finish.go).
// Loader loads a trained model, to apply it to data; Indexing computes the encodings of data.
// They use the state of run.go without the parts. Every rank of a group makes the same calls.
//
// # A training
//
//	brief       rank 0 resolves configuration and options for all
//	survey      each rank scans a part of the data; features are fitted
//	plan        each rank counts its first batches, rank 0 chooses strategies and owners
//	loop        epochs of steps, with checkpoints and validation
//	refit       with train.refit: survey, plan and loop once more, on all rows
//	finish      restores the best epoch, evaluates the test data, writes result.json and the timeline
//
// A group that has lost a rank resumes from memory (heal, with Options.Replicas) or from the
// last checkpoint. A training that does not wait for slow ranks can be repeated from its log
// (replay).
//
// # Determinism
//
// The same seed and world size give the same bits, independent of timing and of interruptions
// followed by a resume. Other world sizes train on the same samples in the same steps, but
// sums over ranks round differently.
//
// # Errors
//
// Faults of configuration, data, checkpoints and peers are errors that name the place. A loss
// that is not finite ends the job; the error names the dense input, the table and key, or the
// layer where it arose. A checkpoint that cannot be written is reported and training
// continues. Only programming errors panic.
package train

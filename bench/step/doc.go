// Package step measures a training step on generated click logs and says how
// near it comes to what the machine can do.
//
//	result, err := step.Run(comm, step.Options{Workload: "w1", Batch: 1024})
//	fmt.Print(result)
//
// # Workloads
//
// Rows are functions of their numbers (see Workload): no files, and every rank
// makes its own.
//
//	w1  60 sparse fields, 10 million keys, E 10, MLP 256-256-256, Zipf 1.1
//	w2  26 sparse fields, 2 million keys, 13 dense inputs, E 16, MLP 256-256-256
//
// Both have a planted logistic model, so that an AUC means something: the best
// possible is .788 and .781 on their test rows. Rules are Adagrad without an
// initial accumulator, rates .01 for dense parameters and .02 (w1) or .05 (w2)
// for rows, as in the peers' trainers.
//
// Options.Config measures any other training on rows of its shape: its columns,
// one key in each, out of as many as its encoding allows.
//
// # Method
//
// Options.Batches batches are made beforehand and trained on once, so that
// their keys have rows and buffers their sizes: what a framework with tables of
// fixed size does at its start. Then steps are timed one by one, and the median
// of rank 0 counts: ranks leave a step together. Options.Epoch instead trains
// on every row of the workload's training part once and evaluates its test part;
// there rows are made between the steps, outside the clock.
//
// # Bounds
//
// A step cannot take less time than its multiply-adds at the rate of registers
// (Machine.PeakFLOPS), nor than the rows that it must read and write, once each,
// at the bandwidth of memory (Machine.Bandwidth). Both are measured in the same
// run, on one thread a rank; the former over as many multiply-adds as a step has. The larger one is the bound; the share is that time
// over the step's.
//
// # Errors
//
// Options that make no sense and faults of the group are errors. Nothing panics.
package step

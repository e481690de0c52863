// Package step measures a training step on generated click logs and says how
// close it is to the limits of the machine.
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
// of rank 0 counts: ranks leave a step together. Beside every median stands the
// first tenth, p10, which other programs on the machine disturb least. For one rank
// alone Result.Cores counts by the CPU time of the median step, which they lengthen
// by what they take of caches and memory only; ranks that wait for each other take
// CPU time too, so there it would say little.
// Result.Busy says what speaks for other work on the machine while it was measured:
// that a lone thread lacked a core, that steps or the rate of multiply-adds scatter, or
// that a step beat its bound. Such times compare with what ran beside them alone.
// Options.Epoch instead trains on every row of the workload's training part once
// and evaluates its test part; there rows are made between the steps, outside the
// clock.
//
// # Bounds
//
// A step cannot take less time than its products at the rate of registers
// (Machine.PeakFLOPS, in bfloat16 Machine.PeakBF16FLOPS), nor than
// the rows that it must read and write, once each, at the bandwidth of memory
// (Machine.Bandwidth). All are measured in the same run, on one thread a rank; the
// peaks over as many operations as a step has. The larger time is the bound; the
// share is that time over the step's.
//
// The parts of a step have floors of their own, the roofline of Williams,
// Waterman and Patterson 2009 applied to each: what a part cannot do without
// (Cost), and the longest of the times that its operations, its bytes of memory
// and its bytes of the second-level cache take at the machine's rates
// (Machine.Floor). Parts follow each other, so their floors add up. Rates are of
// one thread and count once for each. Operations are those carried out: what the first
// layer spares by computing with distinct rows (Result.Spared) is in no bound. A floor is not always within reach: rows
// that are anywhere come at less than the bandwidth of a copy. With bfloat16 all
// products count at its rate, also those of cross layers, which stay in
// float32.
//
// # Errors
//
// Options that make no sense and faults of the group are errors. Nothing panics.
package step

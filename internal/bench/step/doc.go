// Package step measures a training step on generated click logs, and how close it is to the
// limits of the machine.
//
//	result, err := step.Run(comm, step.Options{Workload: "w1", Batch: 1024})
//	fmt.Print(result)
//
// # Workloads
//
// A row is a function of its number (package synth). There are no files, and every rank
// generates its own rows.
//
//	w1  60 sparse fields, 10 million keys, E 10, MLP 256-256-256, Zipf 1.1
//	w2  26 sparse fields, 2 million keys, 13 dense inputs, E 16, MLP 256-256-256
//
// Labels come from a known logistic model, so the best possible AUC is known: .788 and .781 on
// the test rows. The rule is Adagrad without an initial accumulator, with rates .01 for dense
// parameters and .02 (w1) or .05 (w2) for rows, as in the other trainers of the comparison.
//
// Options.Config measures any other training, on rows with its columns. Each column has one
// key, out of as many as its encoding allows. Steps on a GPU are not measured.
//
// # Method
//
// Options.Batches batches are generated and trained on once beforehand, so that their keys
// have rows and buffers have their final sizes, as in a framework with tables of fixed size.
// Result.Growing is the speed of this first pass, in which most keys of a small model are new.
// Then steps are timed one by one. The result is the median of rank 0, because ranks leave a
// step together. It is reported with the first decile, p10, which other programs on the
// machine disturb least.
//
// Result.Cores uses the CPU time of the median step if there is one rank. Other programs
// lengthen it only by their use of caches and memory. Ranks that wait for each other spend
// CPU time on waiting, so there it is not used.
//
// Result.Busy reports signs of other work on the machine: a single thread had no core for
// itself, steps or the rate of multiply-adds vary, or a step took less than its bound. Such
// times can be compared only with times of the same run.
//
// Options.Epoch trains on every row of the workload's training part once instead, and
// evaluates the test part. Rows are then generated between the steps, outside the clock.
//
// # Bounds
//
// A step takes at least the time of its products at the rate of registers
// (Machine.PeakFLOPS, in bfloat16 Machine.PeakBF16FLOPS), and at least the time to read and
// write its rows once each at the bandwidth of memory (Machine.Bandwidth). All rates are
// measured in the same run, on one thread per rank, the peaks over as many operations as a
// step has. The longer time is the bound. The share is the bound divided by the step's time.
//
// Each part of a step has a floor, by the roofline model (Williams, Waterman and Patterson
// 2009). Cost is the least number of operations, bytes of memory, cache lines at random places of
// memory and bytes of the second-level cache of the part. Its floor is the longest of their times at
// the machine's rates
// (Machine.Floor). Parts run one after the other, so their floors are summed. Rates are
// those of one thread and count once per thread. Bounds exclude the operations that the
// first layer saves by computing with distinct rows (Result.Spared), and the
// multiplications by zeros that products skip (Result.Skipped). Machine.Lines is measured
// without the memory of tables, in which other processes and the step's own products displace
// lines from the caches. With bfloat16, all products count at its rate, including those of cross layers, which stay in
// float32.
//
// # Errors
//
// Invalid options and errors of the group are returned. Nothing panics.
package step

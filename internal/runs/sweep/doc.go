// Package sweep decides which trainings an experiment runs, in which order, and which of them
// is the best.
//
//	space      ParseSpace: the keys of a configuration and their possible values
//	settings   Space.Grid, Space.Draw: combinations of values
//	decisions  Scheduler: a state machine without clock, I/O or goroutines
//	work       Run: passes jobs to workers and their outcomes to the Scheduler
//	results    Sweep: outcomes, means over seeds, the ranking; sweep.json
//
// The methods are grid search, random search (Bergstra and Bengio 2012) and asynchronous
// successive halving: ASHA (Li et al., "A System for Massively Parallel Hyperparameter
// Tuning", MLSys 2020; arXiv 1810.05934). ASHA trains all trials for few epochs. Whenever
// a worker is free, it continues a trial that is among the best 1/eta of those that have
// completed the same number of epochs, or else starts a new trial.
package sweep

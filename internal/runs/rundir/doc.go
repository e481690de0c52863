// Package rundir keeps the directory of a run: its name, its lock, its small files, which are
// written atomically, and run.json.
//
//	directory   New, Of, CheckPlace, Hint
//	lock        Lock, Locked
//	files       WriteFile, About
//	ledger      Days: the partitions of train -by
//	link        MarkLatest, LatestOf, Real, IsLatest: the run that finished last
package rundir

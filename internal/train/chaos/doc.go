// Package chaos describes the faults that are injected into a job: for users who want to
// see how their job handles them, and for tests.
//
//	slow:3x@5             rank 5 computes three times slower
//	stop:2s@7             rank 7 pauses for two seconds
//	kill:3@step100        rank 3 is killed when it begins step 100
//	cut:2-3@10s           the link of ranks 2 and 3 breaks ten seconds after the start
//	diskfull@step50       the first checkpoint from step 50 on finds no space
//	random:200@step5000   200 of stop, kill and cut, spread over 5000 steps
//
// Faults are separated by commas. Slow and stop take an optional time (stop:2s@7@step30).
// Without one, slow lasts from the beginning and stop happens at one of the first 100
// steps. Diskfull takes an optional rank before its time (diskfull@2@step50); without one
// it happens on all ranks. The rank "any" is drawn from the seed. Stops of random last up
// to two seconds.
//
// A Spec is the parsed string. Plan draws the ranks and times that the string leaves out, and
// returns the list of faults. The list is the same for the same seed and world size. An
// Injector reports the faults of one rank that are due; it does not carry them out. Faults
// other than slow happen once. A rank that restarts skips the faults that were already
// injected (Skip). Otherwise a kill at a step would happen each time the step is reached from
// a checkpoint.
//
// Nothing panics. MaxFaults and MaxText limit the string.
package chaos

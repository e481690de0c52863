// Package chaos describes the faults that are injected into a job: for users who want to
// see what their job does with them, and for tests.
//
//	slow:3x@5             rank 5 computes three times slower
//	stop:2s@7             rank 7 stands still for two seconds
//	kill:3@step100        rank 3 is killed when it begins step 100
//	cut:2-3@10s           the link of ranks 2 and 3 breaks ten seconds after the start
//	diskfull@step50       the first checkpoint from step 50 on finds no space
//	random:200@step5000   200 of stop, kill and cut, spread over 5000 steps
//
// Faults are separated by commas. Slow and stop take a time as well
// (stop:2s@7@step30); without one, slow holds from the beginning and stop comes
// at one of the first 100 steps. Diskfull takes a rank before its time
// (diskfull@2@step50); without one it happens to all. A rank may be "any": the seed
// draws it. Random's stops last up to two seconds.
//
// A Spec is what was written. Plan draws what is open and gives the faults one by
// one, the same for the same seed and world size. An Injector answers, for one
// rank, what happens now; it acts on nothing itself. Faults other than slow happen
// once: a rank that starts again gets those already injected (Skip), or a kill at a
// step would come again each time the step is reached from a checkpoint.
//
// Nothing panics; texts are bounded by MaxFaults and MaxText.
package chaos

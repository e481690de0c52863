// Package bench measures collective calls as their users experience them, and compares them with
// what the cost model of package collective chose and predicted.
//
//	err := bench.Run(comm, bench.Options{Ops: []string{"allreduce"}}, func(l bench.Line) {
//		fmt.Println(l)
//	})
//
// # Method
//
// All ranks call Run alike. Before anything is timed, one call on a known
// pattern is checked element by element. Then one sample is the mean over a
// batch of K calls made back to back after a barrier, of the slowest rank. K is
// such that a batch lasts about Options.Batch, batches are repeated for
// Options.Time, at least 5 and at most 2000 of them, and a line tells their
// median. In the form _use each call is a sample of its own: every rank rewrites
// what it sends before the clock starts, and reads what it got before the clock
// stops, as a trainer does. Without that, a copy out of another core's cache is
// paid only once, since memory that no rank rewrites stays valid in both caches.
//
// Options.Turns has the lines asked for one by one, so that other libraries are measured
// in turns with this one: the speed of a shared machine changes within seconds.
//
// # Units
//
// Bytes is one rank's buffer: of an all-to-all everything it sends, its own part
// included; of an all-gather everything it receives. Algorithm bandwidth is bytes
// over time, in 1e9 bytes a second; bus bandwidth is what one rank's link
// carries at least, as nccl-tests count it, with P ranks:
//
//	allreduce                                         2(P−1)/P · bytes
//	reduce_scatter, all_gather, alltoall, alltoallv    (P−1)/P · bytes
//	broadcast                                                    bytes
//
// # Errors
//
// Options that ask for nothing sensible and wrong results are errors; an error of
// a collective call is returned as it is. Nothing panics. Only the goroutine
// that calls Run works, on the one channel of its Comm.
package bench

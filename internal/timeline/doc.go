// Package timeline reads the trace files that the ranks of a run leave (package trace),
// puts them on one clock and finds out who waited for whom.
//
// Ranks of one host read the same monotonic clock, which each file names. Other clocks
// are aligned by the exchanges: no rank returns from one before every rank has entered
// it, so the time at which a rank entered it on its clock is before the time at which
// each other rank left it. Every exchange bounds the offset of two clocks from both
// sides, as a round trip does. The tightest bounds of a stretch of steps give the offset
// there, and half their distance the error. A clock that drifts is followed from stretch
// to stretch.
//
// A rank waits in an exchange from the time at which it enters it to the time at which
// the last rank does. The delay of the exchange is the time between the last rank and
// the one before it: what the step would gain if that rank had come with the others. The
// cause of a delay is the phase that took the late rank longer than the others (their
// median) since the exchange before.
//
// Files of versions that did not note exchanges are read too: entering pull, push and
// sync counts as entering an exchange. Files are read with limits; a fault in one is
// reported with its place, and what comes before it is used.
package timeline

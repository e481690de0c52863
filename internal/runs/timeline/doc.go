// Package timeline reads the trace files of the ranks of a run (package trace), converts
// them to one clock and determines which ranks waited for which.
//
// Ranks of one host read the same monotonic clock, which each file names. Other clocks
// are aligned by the exchanges: no rank returns from one before every rank has entered
// it, so the time at which a rank entered it on its clock is before the time at which
// each other rank left it. Every exchange bounds the offset of two clocks from both
// sides, as a round trip does. The tightest bounds of a stretch of steps give the offset
// there, and half their distance the error. A clock that drifts is followed from stretch
// to stretch.
// A rank waits in an exchange from its own entry until the last rank enters. The delay of
// the exchange is the time between the last rank and the one before it: the step would be
// shorter by that time if the last rank had not been late. The cause of a delay is the
// phase that took the late rank longer than the others (their median) since the previous
// exchange.
//
// Files of versions that did not record exchanges are read too: entering pull, push and
// sync counts as entering an exchange. Files are read with limits. An error in a file is
// reported with its position, and the content before it is used.
package timeline

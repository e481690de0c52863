// Package join makes samples of impressions and the feedback about them (clicks, purchases), as they
// arrive: wdlrun join.
//
//	impressions ─┐                     ┌─► samples: the impression and its label
//	             ├─► Machine ── state ─┤
//	feedback ────┘                     └─► rejected: what is not used, with its reason
//
// # Rules
//
// An impression has a key and a time t. Feedback with the same key and a time in [t, t + window] is
// its label; the earliest counts. All times are event times, from the records.
//
// A source is a folder, or a partition of a topic. Its records may be out of order by at most delay.
// Its watermark is its greatest time, less delay; the watermark of the join is the least of all
// sources. It never falls. Sources without new records for some time, and those that have ended, do
// not hold it up. When the watermark passes t + window, no feedback can be missing: the sample is
// written. With Early, an impression is written at once as a negative sample, and again as a positive
// one when its feedback arrives.
//
// A record is late if its time is before the watermark. A late impression is rejected, because its
// feedback may have been rejected before. Late feedback is rejected if its impression is not open.
// Feedback before its impression waits until the watermark passes its time. An impression with the
// key of an open one is a duplicate.
//
// # State
//
// The Machine is pure: it has no clock and does no I/O. It keeps the key, the time and the place of each
// open impression; the record itself is in the log of the state directory (log.go). A commit makes
// positions, open impressions and samples durable together:
//
//  1. The samples of the commit are written to OUT/NUMBER.jsonl.part and synced.
//  2. The log gets the record of the commit, with positions and watermarks, and is synced.
//  3. The file of samples gets its final name.
//
// A run that begins renames the files of the last commit, and removes those of a later one. Each
// impression therefore becomes one sample, wherever a process was killed.
package join

// Package live shows a training while it runs: a page for a browser and metrics for
// Prometheus, both served by rank 0.
//
//	Board    what the job has reported so far: curves, ranks, tables, log
//	Server   the page at /, its events at /events, the metrics at /metrics
//
// The job calls a few methods of Board, at most once a step, and never waits for a reader:
// each browser has a separate goroutine that reads the board once a second. A nil Board
// ignores all calls.
//
// # Limits
//
// Series are thinned to at most 4096 points, the log keeps the last 500 lines of at most 1
// KiB. At most 32 browsers are served at once. A browser that does not read for 10 s is
// disconnected.
//
// # Trust
//
// Without a token the server only listens on loopback addresses, and requests must name a
// loopback host, so that no other web page can read this one. With a token each request
// must have it: as a cookie, which /?token=TOKEN sets, or as a bearer token.
package live

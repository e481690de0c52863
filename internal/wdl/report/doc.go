// Package report shows people how a training gets on and writes it to files: the result of a job, the
// lines of metrics.jsonl, what is shown while it runs, and what is doubtful.
//
//	Result      result.json, with the figures of tables and ranks
//	Reporter    metrics.jsonl, slow ranks, where time went
//	Status      what heartbeats show
//	doubts      Divergence, Doubts, Outside
//
// It is given values and calls nothing but the collective operations that sum figures
// over the ranks.
package report

// Package report tells people and files how a training gets on: the result of a job, the
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

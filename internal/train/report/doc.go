// Package report reports the progress and the result of a training: result.json, the lines of
// metrics.jsonl, the status of a running job, and warnings.
//
//	Result      result.json, with metrics of tables and ranks
//	Reporter    metrics.jsonl, slow ranks, time by phase
//	Status      status in heartbeats
//	warnings    Divergence, Doubts, Outside
//
// It gets values from its callers. The only calls it makes are collective operations that sum
// values over the ranks.
package report

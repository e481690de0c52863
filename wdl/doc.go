// Package wdl trains Wide & Deep models (Cheng et al. 2016, "Wide & Deep
// Learning for Recommender Systems") on a group of ranks: it is the one place
// where sparse meets dense.
//
//	logit = bias + Σ wide weights of the sample's keys + MLP([pooled embeddings, dense inputs])
//
// Trainer takes synchronous steps on batches; Job is a whole training, from the
// configuration to the run directory, and Evaluation the figures of a trained
// model. Every rank of a group makes the same calls.
//
// # A step
//
// With B rows on this rank, F sparse features of ΣE columns, D dense inputs:
//
//	pull     unique keys → owners → rows                     collective
//	compute  X (B × (ΣE+D)) → MLP → logits → loss → gradients
//	push     gradients of unique keys → owners               collective
//	sync     sum of dense gradients, and behind them the samples, the loss and
//	         the wishes (checkpoint, stop) of all ranks      collective
//	update   one optimizer step per distinct key and per dense parameter
//
// Gradients are sums over samples; update divides by the samples of all ranks,
// so ranks may have batches of any size, also none. The loss is the binary cross
// entropy of the logit, as in the paper, §3.2.
//
// # Determinism
//
// The same seed and world size give the same bits, whatever the timing, and so
// does a training that was interrupted and resumed. Other world sizes train on
// the same samples in the same steps; sums over ranks then round differently.
//
// # Errors
//
// Faults of configuration, data, checkpoints and peers are errors that name the
// place. A loss that is no finite number ends the job and names the dense input,
// the table and key, or the layer where it arose. A checkpoint that cannot be
// written is reported and training goes on. Nothing panics on what the world
// can do.
package wdl

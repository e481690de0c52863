// Package step takes the steps of a training on a group of ranks. It is the only package
// that combines embedding tables with dense layers.
//
//	logit = bias + Σ wide weights of the sample's keys + network([pooled embeddings, dense inputs])
//
// Trainer takes synchronous steps. Package network lists the operations of a
// model's network; layers.go computes them with the layers of package dense. Every rank of a group makes the
// same calls. No method is safe for concurrent use.
//
// # A step
//
// With B rows on this rank, F sparse features of ΣE columns, D dense inputs:
//
//	pull     unique keys → owners → rows                     collective
//	compute  X (B × (ΣE+D)) → network → logits → loss → gradients
//	push     gradients of unique keys → owners               collective
//	sync     sum of dense gradients, and behind them the samples, the loss and
//	         the requests (checkpoint, stop) of all ranks; on several hosts
//	         in buckets, each of which begins during compute, as soon as
//	         backward has finished it                        collective
//	update   one optimizer step per distinct key and per dense parameter
//
// Modes differ in the slots of a step that a rank computes, and in when the slots that count
// are decided:
//
//	waiting    one slot a rank; all count                  waiting.go
//	ordered    train.slots, the same on any number of      slots.go
//	           ranks; all count
//	Tolerant   a slots.Machine leases slots, and decides   tolerant.go, sums.go
//	           when enough are computed
//
// Only Tolerant makes further calls: a pull each time it leases slots, rounds of reports, and
// the exchange of microbatches and gradients that another rank computes.
//
// Gradients are sums over samples. update divides them by the samples of all ranks, so ranks
// may have batches of any size, including 0. The loss is the binary cross entropy of the
// logit (Cheng et al. 2016, §3.2), or for numbers the squared error or the Poisson loss. With
// several labels it is the sum over their towers. With weights, update divides by the sum of
// the weights. In the steady state a step allocates nothing and starts no goroutine.
//
// # Determinism
//
// The same seed, world size and number of threads give the same bits, independent of timing.
// The bits of Tolerant also depend on which microbatches counted; Replay repeats these from
// the log.
//
// # Errors
//
// An error of a peer or a tier's file, or a loss that is not finite, ends the training of the
// group. Then only Close may be called, or Leave if each shard has a copy. Only programming
// errors panic.
package step

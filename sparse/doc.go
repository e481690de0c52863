// Package sparse shards embedding tables over the ranks of a group. Tables grow as keys
// arrive. Each rank keeps its shards in tables of package table; this package is the exchange
// between them. It needs only an [Exchanger], two all-to-all calls, and can be used alone.
//
// # Terms and shapes
//
// P ranks share the store. Each owns some shards. A table maps 64-bit keys to rows and has no
// declared size. Every key from 0 to 2⁶⁴−1 has an initial row, a pure function of (seed, table
// name, part name, key), which takes memory only after its first optimizer step. A row consists
// of parts, each with its own update rule: for example the deep embedding (dim 8, Adam) and the
// wide weight (dim 1, FTRL) of the same key. In memory a row is one record:
//
//	| values of part 0 | values of part 1 | … | state of part 0 | state of part 1 | … |
//	|<---------------- V float32 ---------->|<---------------- S float32 ---------->|
//
// All parts share one key, one probe and one message. A batch gives each feature B bags of keys
// ([Bags]). Several features may read one table.
//
// # A step
//
//	Pull       collective  keys of the batch → unique keys → owners → unique keys → rows
//	Pool       local       B×dim values of a feature, rows of a bag pooled
//	PoolGrad   local       gradients of those values → gradient of each unique key
//	Push       collective  gradients of unique keys → owners, summed over ranks
//	GradNormSq local       for clipping
//	Apply      local       one optimizer step for each distinct key
//
// Pull has no side effects: it reads the rows as the last Apply left them. With insert=false, an
// absent key reads as zeros, which [Lookup.Unknown] counts. With insert=true, it reads as its
// initial row and is inserted by the Apply that follows its Push. A batch that is pulled and then
// dropped leaves no trace. Several Pushes before one Apply add up, in order.
//
// All ranks make the collective calls in the same order. A rank without samples passes empty
// bags. After an error of a collective call the ranks are out of step: abort the group. Each Pull
// sends the peers its number, its kind and a fingerprint of the configuration, so the error names
// the rank that is out of step.
//
// # Working ahead
//
// A Pull can be split in two, so that most of it runs while the previous batch is computed:
//
//	Complete(i) ─ Prepare(i+1) ─ Pool, PoolGrad(i) ─ Push(i) ─ Apply(i) ─ Complete(i+1)
//	                  │ by a goroutine                  │                       │
//	                  └ unique keys → owners → rows     └ gradients, while the  │
//	                    that no batch in flight has       caller reduces others │
//	                    rows that batch i has: after Apply(i) ──────────────────┘
//
// Prepare, Complete and this Push are methods of [Store.Pipeline].
//
// The owner has the keys of batch i, so it knows which rows of batch i+1 will change. It sends the
// others at once, with one bit per key that marks them. Results equal Pull's to the bit.
// The idea is from Agarwal et al. 2023 (BagPipe), who cache rows because the overlap of
// neighbouring batches is small and known in advance. Rows are never sent ahead if every step
// changes them (parts with DenseL2) or may remove them (tables that evict).
//
// # Placement
//
// A key's shard is the high bits of a mixed hash of key and table ([ShardOf]). Initially, ranks own
// equal consecutive ranges of shards ([OwnerOf]). Owners measure the load of each shard
// ([Shards.Loads]). [Place] distributes the shards by the sum over all ranks, and [Shards.Place] moves
// them at a checkpoint, when no batch is in flight. Ranks compare the owners in each Pull. The number
// of shards is fixed for the life of a model, and checkpoints store shards separately, so any number
// of ranks can load them in any placement.
//
// A batch requests a key once, however often it occurs, so even Zipf's law leaves little imbalance.
// Bytes of the busiest rank over the mean, 8 ranks, dim 8, Zipf(1.2) keys (TestPlacementEvensOutZipf):
//
//	keys a batch   initially  placed
//	          16       1.27     1.06
//	          64       1.18     1.04
//	         256       1.08     1.01
//
// # Microbatches that may be late
//
// [Slots.Push] keeps the gradients of a microbatch separate, under its slot. [Slots.Commit] adds up
// the slots that count, in slot order, and drops the others. Slots 0 to P−1 give the bits that ranks 0
// to P−1 give with Push, whichever rank computed them.
//
// # Strategies
//
// [Table.Strategy] selects what is sent for a table. Rows suits every table. Pooled suits
// bags of hundreds of keys that rarely repeat: keys go to their owners, and each owner
// returns one sum per bag. For n values in B bags, with o owners per bag other than the
// reader, u distinct keys per rank, and rows of V values of b bytes, all P ranks together
// send in a step:
//
//	Rows    (8 + b·V + b·V) Σu (P−1)/P
//	Pooled  12 n (P−1)/P + 4 B (P−1) + 8 V Σo
//
// [Strategy.Bytes] computes these, and [Choose] decides by them. Pooled adds the sums of owners in rank
// order. It equals Rows up to rounding, and to the bit if no bag has more than two keys.
//
// # Distinct rows
//
// A caller whose first operation on rows is linear can apply it to each distinct row once:
// [Lookup.Distinct], [Lookup.Numbers], [Lookup.ReadDistinct] and [Lookup.AddDistinct] replace Pool and
// PoolGrad for a feature.
//
// # Order of sums
//
// Results are the same bits in every run with the same P. A bag sums its values from zero, from first
// to last. The gradient of a unique key on one rank is summed from zero, in the order of the PoolGrad
// calls, bags and values. The owner sums over ranks in rank order. GradNormSq does not depend on the
// order of rows, so saving and loading does not change it. Another P sums in another order.
//
// # Cost
//
// With u_r unique keys of this rank on other ranks, a Pull sends 8·u_r bytes of keys and receives 4·V·u_r
// bytes of rows. A Push sends 4·V·u_r bytes of gradients. [Table.Wire] with bf16 sends 2 bytes per value
// instead of 4. Each Pull also sends 8·(3+tables) bytes of counts to each peer. A Pull is three
// all-to-alls and a Push one, for all tables together; Pooled tables add two and one. A batch that is
// prepared ahead sends u_r/8 bytes of marks in one more all-to-all, and its rows in two. [Counters] counts
// every byte.
//
// Package table documents the memory of a key. The steady state allocates nothing.
//
// # Errors and panics
//
// An error names the rank and the place: malformed bags, a failed exchange, a peer's count above the
// limit, a gradient that is not finite, a file that does not fit. Wrong use panics: a feature or part that
// does not exist, a destination that is too short, pooling before pulling.
//
// # Concurrency
//
// A Store and its Lookups are for one goroutine at a time, except for the goroutine of a [Pipeline]. Pool only
// reads, and several goroutines may call it on one Lookup at once.
//
// # Saved shards
//
// [Files.Snapshot] saves this rank's shards while steps continue, in the formats of package table.
// [Files.SaveShard] saves one shard between steps. Shards without rows are neither saved nor loaded. With
// DenseL2 parts, [Files.Past] is saved once for all ranks.
//
// # Sources
//
// Sharded embeddings exchanged by all-to-all: Naumov et al. 2019 (DLRM) and Mudigere et al. 2022. Growing
// hash tables instead of vocabularies: Jiang et al. 2019 (XDL). Update rules: see package optim.
package sparse

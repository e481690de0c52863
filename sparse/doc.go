// Package sparse is a sharded store of embedding tables that grow as keys
// arrive. Each rank keeps its shards in the engine of package table; this package
// is the exchange between them. It is usable alone: all it needs of the world is
// an [Exchanger], two all-to-all calls.
//
// # Words and shapes
//
// P ranks share the store, each owns some shards. A table maps 64-bit keys to
// rows and declares no size: every key of 0 to 2⁶⁴−1 exists from the start with
// a row that is a pure function of (seed, table name, part name, key), and takes
// memory only after its first optimizer step. A row is made of parts, stretches
// of values with their own update rule: say the deep embedding (dim 8, Adam) and
// the wide weight (dim 1, FTRL) of the same key. One key, one probe and one
// message serve all parts. In memory a row is one record
//
//	| values of part 0 | values of part 1 | … | state of part 0 | state of part 1 | … |
//	|<---------------- V float32 ---------->|<---------------- S float32 ---------->|
//
// A batch gives, for each feature, B bags of keys ([Bags]); several features may
// read one table.
//
// # A step
//
//	Pull      collective   keys of the batch → unique keys → owners → rows
//	Pool      local        B×dim values of a feature, rows of a bag pooled
//	PoolGrad  local        gradient of those values → gradient of each unique key
//	Push      collective   gradients of unique keys → owners, summed over ranks
//	GradNormSq local       for clipping
//	Apply     local        one optimizer step for each distinct key
//
// Pull is free of side effects: it reads the rows as the last Apply left them.
// A key that nobody holds reads as zeros with insert=false, which [Lookup.Unknown]
// counts. With insert=true it reads as its initial row, and is inserted by the
// Apply that follows its Push. So a batch
// that is pulled and then dropped leaves no trace. Several Pushes before one
// Apply add up, in order.
//
// Every rank makes the collective calls in the same order; one without samples
// passes empty bags. After an error of a collective call the group is out of
// step: abort it. Each Pull tells the peers its number, its kind and the
// fingerprint of the configuration, so that a rank out of step is named.
//
// # Working ahead
//
// A Pull can be split in two, so that most of it is done while the batch before
// is computed:
//
//	Complete(i) ─ Prepare(i+1) ─ Pool, PoolGrad(i) ─ PushBeside(i) ─ Apply(i) ─ Complete(i+1)
//	                  │ by the goroutine of Ahead         │                         │
//	                  └ unique keys → owners → rows that  └ gradients, while the    │
//	                    no batch in flight has              caller reduces others   │
//	                    rows that batch i has: after Apply(i) ──────────────────────┘
//
// The owner has the keys of batch i, so it knows which rows of batch i+1 its
// Apply will change and sends the others at once, with one bit for each key to
// tell which. Nothing is stale: results are those of Pull to the bit. That the
// overlap of neighbouring batches is small and known in advance is the
// observation of Agarwal et al. 2023 (BagPipe), who cache rows by it. Rows of
// tables with a DenseL2 part all change in every step, those of tables that evict
// may go in any, and they never travel ahead.
//
// # Placement
//
// A key's shard is the high bits of a mixed hash of key and table ([ShardOf]). At
// first shards go to ranks in equal consecutive ranges ([OwnerOf]). Owners measure
// what is asked of each shard ([Store.Loads]), [Place] spreads the shards by the sum
// over all ranks, and [Store.Place] makes it so at a checkpoint, when the store is
// empty. Owners
// are part of what a Pull compares between ranks. The number of shards is fixed
// for the life of a model and checkpoints keep shards apart, so any number of
// ranks can load them, placed in any way.
//
// [Store.CopyReplicated] gives every rank the rows of Replicated tables: reading them
// sends nothing. One rank for each key, its home, sums the gradients in rank order.
// Every rank takes the same step with the sum, so that results are those of Rows to the
// bit. A Pull sends one bit for each copied key to each peer, and a Push is three
// all-to-alls.
//
// A batch asks for a key once, however often the key occurs in it, so that even Zipf's
// law leaves little to even out. Busiest rank over the mean in bytes, 8 ranks, dim 8,
// Zipf(1.2) keys (TestPlacementEvensOutZipf):
//
//	keys a batch   at first   placed
//	          16       1.27     1.06
//	          64       1.18     1.04
//	         256       1.08     1.01
//
// # Microbatches that may be late
//
// Gradients need not count as they come. [Store.PushSlot] keeps those
// of a microbatch apart, under its slot; [Store.Commit] adds up the slots that
// count, in slot order, and forgets the others. Slots 0 to P−1 give the bits
// that ranks 0 to P−1 give with Push, whoever computed them.
//
// # Strategies
//
// [Table].Strategy says of each table what travels. Rows is what suits all of
// them. A bag of hundreds of keys that rarely repeat costs less Pooled: keys go to
// owners, and one sum of each owner for a bag comes back in place of rows. Replicated
// saves the keys of small tables of which most rows are in every step. With n values
// in B bags that have keys of o owners other than the reader, u distinct keys of a
// rank and U of all, R rows, all P ranks together send in a step
//
//	Rows        (8 + b·V + b·V) Σu (P−1)/P
//	Pooled      12 n (P−1)/P + 4 B (P−1) + 8 V Σo
//	Replicated  b·V Σu (P−1)/P + 4 V U (P−1) + R/8 P (P−1)
//
// for V values of b bytes, which [Strategy.Bytes] counts and [Choose] decides by.
// Sums of owners are added in rank order, so Pooled equals Rows up to rounding: to
// the bit where no bag has more than two keys, as gradients are summed by distinct
// key and rank either way.
//
// # Distinct rows
//
// A caller whose first operation on rows is linear can apply it to each distinct row
// once: [Lookup.Distinct], [Lookup.Numbers], [Lookup.ReadDistinct] and
// [Lookup.AddDistinct] take the place of Pool and PoolGrad of a feature.
//
// # Order of sums
//
// Results are the same bits on every run with the same P. A bag pools its values
// from zero and from first to last. A unique key's gradient on one rank sums from zero in the
// order of the PoolGrad calls, bags and values. The owner sums over ranks in
// rank order. GradNormSq does not depend on the order of rows at all, so that it
// survives saving and loading. Another P gives the same sums in another order.
//
// # Cost
//
// With u_r unique keys of this rank that live elsewhere, a Pull sends 8·u_r bytes
// of keys and receives 4·V·u_r bytes of rows, and a Push sends 4·V·u_r bytes of
// gradients; a number takes 2 bytes in place of 4 where [Table].Wire says bf16.
// Each Pull also sends 8·(3+tables) bytes of counts to each peer. That
// is three all-to-alls of a Pull and one of a Push for all tables together, two and
// one more where a table is Pooled. A batch that is prepared beside sends u_r/8 bytes of marks more, in one all-to-all,
// and its rows in two.
// [Counters] counts every byte.
//
// Package table says what memory a key takes. A steady state allocates nothing.
//
// # Errors and panics
//
// What the world can do is an error that names the rank and the place: malformed
// bags, a failed exchange, a peer's count past the limit, a gradient that is not
// finite, a file that does not fit. What only a wrong program can do panics: a
// feature or part that does not exist, a destination that is too short, pooling
// before pulling.
//
// # Concurrency
//
// A Store and its Lookups belong to one goroutine at a time, that of Ahead apart. Pool alone only
// reads, and several goroutines may call it on one Lookup at once.
//
// # Saved shards
//
// [Store.Snapshot] saves this rank's shards beside steps, in the formats of package
// table, and [Store.SaveShard] one while no step is taken. Shards without rows are
// not saved and not loaded. With DenseL2 parts, [Store.Past] is saved once for all ranks.
//
// # Sources
//
// Sharded embeddings exchanged by all-to-all: Naumov et al. 2019 (DLRM) and
// Mudigere et al. 2022. Growing hash tables in place of vocabularies: Jiang et
// al. 2019 (XDL). Update rules: see package optim.
package sparse

package sparse

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/wdlrun/wdlrun/internal/kernel/raw"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// Store is one rank's part of the sharded tables. A trainer needs Open, NewLookup,
// Pull, Push, Apply and Close. The other groups of calls are optional: Pipeline works
// ahead, Slots keeps microbatches separate, Files saves and loads, Shards moves shards
// between ranks, RowNorms and ObserveGradients measure rows and gradients, and Replica
// survives the loss of a rank.
type Store struct {
	link
	rank, size int
	cfg        Config
	print      uint64 // fingerprint of cfg and the owners
	tables     []*table.Table
	exchanged
	update

	pulls      int64     // number of Pulls; a difference shows ranks out of step
	stepped    int64     // last step applied; likewise
	generation int64     // number of Resets, to detect stale Lookups
	closed     bool      // Close was called
	inFlight   []*Lookup // pulled for training, and not applied yet
	staged     []*staged // by table
	ids        []uint32  // scratch memory: numbers of keys
	workers    workers
	counters   Counters

	pipeline Pipeline
	slots    Slots
	replica  Replica
	shards   Shards
	files    Files
	norms    norms
}

// exchanged holds how the tables are exchanged, from their configurations.
type exchanged struct {
	wire    []Wire     // by table
	how     []Strategy // by table
	still   []bool     // by table: a step only changes the rows of its keys
	early   bool       // any table is still: rows can be sent ahead
	pools   bool       // a table is pooled by its owners
	encodes bool       // the gradients of any table are encoded
	decays  bool       // any table has DenseL2 parts
}

// add adds a table and reports whether it has DenseL2 parts.
func (x *exchanged) add(c Table) (decays bool) {
	decays = slices.ContainsFunc(c.Parts, func(p Part) bool { return p.DenseL2 })
	still := c.Evict == table.Evict{} && !decays
	x.wire, x.how, x.still = append(x.wire, c.Wire), append(x.how, c.Strategy), append(x.still, still)
	x.early = x.early || still
	x.pools = x.pools || c.Strategy == Pooled
	x.encodes = x.encodes || c.Wire.Gradients != FP32
	x.decays = x.decays || decays
	return decays
}

// Open makes an empty store on this rank. It does not communicate. If configurations
// differ between ranks, the first Pull returns an error.
func Open(ex Exchanger, cfg Config) (*Store, error) {
	if ex == nil {
		return nil, errors.New("sparse: open: no Exchanger: pass Local{} for a single rank")
	}
	rank, size := ex.Rank(), ex.Size()
	if size < 1 || rank < 0 || rank >= size {
		return nil, fmt.Errorf("sparse: open: the Exchanger reports rank %d of %d", rank, size)
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("sparse: open: rank %d: configuration:\n%w", rank, err)
	}
	cfg = cfg.withDefaults()
	s := &Store{link: newLink(ex), rank: rank, size: size, cfg: cfg}
	s.pipeline.store, s.slots.store, s.replica.store, s.shards.store, s.files.store = s, s, s, s, s
	for _, c := range cfg.Tables {
		t, err := table.Open(c.engine(), cfg.Seed, cfg.Shards)
		if err != nil {
			return nil, fmt.Errorf("sparse: open: rank %d: %w", rank, err)
		}
		if s.add(c) {
			t.Share(&s.past)
		}
		s.tables = append(s.tables, t)
		s.staged = append(s.staged, &staged{set: table.NewSet(t.Salt(), nil, 1)})
	}
	s.applied = make([]table.Applied, len(s.tables))
	s.onCheck, s.onApply = s.checkTables, s.applyTables
	s.Share(1, nil)
	s.shards.init(cfg.Shards, len(s.tables))
	s.print = s.fingerprint()
	return s, nil
}

// Config returns the configuration in effect, with defaults filled in.
func (s *Store) Config() Config { return s.cfg.withDefaults() }

// Rows returns the number of rows of a table that this rank holds.
func (s *Store) Rows(table int) int {
	s.pipeline.wait()
	return s.tables[table].Rows()
}

// Reset removes every row and every staged gradient, as if the store had just been opened.
// Call it before loading a checkpoint into a store in use. Lookups pulled before cannot be
// pushed.
func (s *Store) Reset() error {
	s.pipeline.wait()
	s.inFlight = s.inFlight[:0]
	s.slots.clear()
	s.print = s.fingerprint()
	s.generation++
	s.past = table.Past{}
	var errs []error
	for i, t := range s.tables {
		errs = append(errs, t.Reset())
		s.staged[i].reset()
	}
	s.replica.forget()
	errs = append(errs, s.replica.each((*table.Table).Reset))
	return errors.Join(errs...)
}

// Close ends the goroutine of the Pipeline and frees the memory of the tables. It waits
// for a batch that is being prepared: if a peer is lost, abort the group first.
func (s *Store) Close() error {
	s.pipeline.stop()
	s.closed = true
	var errs []error
	for _, t := range s.tables {
		errs = append(errs, t.Close())
	}
	errs = append(errs, s.replica.each((*table.Table).Close))
	return errors.Join(errs...)
}

// fingerprint returns a hash of the configuration and the owners.
func (s *Store) fingerprint() uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, s.cfg.fingerprint())
	h.Write(raw.Bytes(s.shards.owner))
	return h.Sum64()
}

// name returns the name of a table.
func (s *Store) name(table int) string { return s.cfg.Tables[table].Name }

// Counters counts the operations of a store since Open and its current contents. Bytes are
// payload sent between different ranks.
type Counters struct {
	KeysPulled        int64 // values of all bags
	UniqueKeys        int64 // distinct keys of each batch and table
	RemoteUniqueKeys  int64 // of these, keys owned by other ranks
	CountBytesSent    int64 // 8·(3+tables) per peer and Pull; as many are received
	KeyBytesSent      int64 // 8 per remote unique key
	KeyBytesReceived  int64
	RowBytesSent      int64
	RowBytesReceived  int64 // 4·V per remote unique key
	GradBytesSent     int64 // 4·V per remote unique key
	GradBytesReceived int64
	MarkBytesSent     int64 // one eighth per key of another rank that was or could have been answered ahead
	MarkBytesReceived int64

	ReplicaBytesSent int64 // sent by Mirror and Heal; summed over ranks, as many are received

	RowsInserted int64
	RowsHeld     int64 // current, on this rank
	StepsOfRows  int64 // optimizer steps taken, counted by row
	MemoryBytes  int64 // rows, indexes and staged gradients, current
}

// add adds the counts of one exchange.
func (c *Counters) add(x Counters) {
	c.KeysPulled += x.KeysPulled
	c.UniqueKeys += x.UniqueKeys
	c.RemoteUniqueKeys += x.RemoteUniqueKeys
	c.CountBytesSent += x.CountBytesSent
	c.KeyBytesSent += x.KeyBytesSent
	c.KeyBytesReceived += x.KeyBytesReceived
	c.RowBytesSent += x.RowBytesSent
	c.RowBytesReceived += x.RowBytesReceived
	c.MarkBytesSent += x.MarkBytesSent
	c.MarkBytesReceived += x.MarkBytesReceived
}

// BytesSent returns the payload bytes sent to other ranks.
func (c Counters) BytesSent() int64 {
	return c.CountBytesSent + c.KeyBytesSent + c.RowBytesSent + c.GradBytesSent + c.MarkBytesSent + c.ReplicaBytesSent
}

// TableCounters counts the operations and contents of one table on this rank.
type TableCounters struct {
	table.Counters
	Rows  int64 // current
	Bytes int64 // current memory of rows and index, including a copy's

	// CarriedBytes is the number of bytes that this rank has received and sent as an owner
	// for training batches: keys, rows or sums, gradients of other ranks, and copies for
	// Mirror.
	CarriedBytes int64
}

// Table returns the counters of a table on this rank.
func (s *Store) Table(i int) TableCounters {
	s.pipeline.wait()
	t := s.tables[i]
	c := TableCounters{Counters: t.Counters(), Rows: int64(t.Rows()), Bytes: t.Bytes(), CarriedBytes: s.shards.carried[i]}
	if s.replica.tables != nil {
		c.Bytes += s.replica.tables[i].Bytes()
	}
	return c
}

// Counters returns the counters of this rank. It reads every shard: call it for reports,
// not in every step.
func (s *Store) Counters() Counters {
	s.pipeline.wait()
	c := s.counters
	c.MemoryBytes = s.slots.bytes()
	for i, t := range s.tables {
		c.RowsHeld += int64(t.Rows())
		c.MemoryBytes += t.Bytes() + s.staged[i].bytes()
	}
	for _, t := range s.replica.tables {
		c.MemoryBytes += t.Bytes()
	}
	return c
}

// Share divides the work of Pull, Complete and Apply on tables among n goroutines. each
// calls f(0) to f(n−1) concurrently and returns when all have returned. The goroutine of a
// Pipeline does its work by itself. The results do not change. Call Share before NewLookup.
func (s *Store) Share(n int, each func(f func(i int))) {
	w := &s.workers
	w.n, w.each, w.errs = max(1, n), each, make([]error, max(1, n))
	w.run = func(i int) { w.errs[i] = w.task(i) }
}

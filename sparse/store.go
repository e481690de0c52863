package sparse

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/sparse/table"
)

// Store is one rank's share of the tables and its way to the others'.
type Store struct {
	link
	rank, size int
	cfg        Config
	print      uint64 // fingerprint of cfg
	tables     []*table.Table
	past       table.Past // what tables with DenseL2 parts know of the steps before
	decays     bool       // there is such a table
	staged     []*staged  // by table
	owner      []int32    // by shard
	pulls      int64      // how many there were, to find ranks out of step
	generation int64      // how often Reset was called, to find stale Lookups
	wire       []Wire     // by table
	how        []Strategy // by table
	pools      bool       // a table is pooled by its owners
	still      []bool     // by table: a step changes the rows of its keys alone
	encodes    bool       // the gradients of a table travel encoded
	early      bool       // a table is still: rows can travel ahead
	ahead      *ahead     // nil if batches are not prepared on the side
	waiting    *Lookup    // prepared and not completed
	flying     []*Lookup  // pulled to train, and not applied
	slots      slots
	copies     copies
	replica    replica
	loads      []ShardLoad // by shard: what was asked
	carried    []int64     // by table
	ids        []uint32
	hands      hands
	applied    []table.Applied // by table
	at         Step            // that is applied
	nothing    []uint64        // what PushNone sends
	counters   Counters
	norm       table.Sum

	onCheck, onApply func(hand int) error // kept so that a step allocates nothing
}

// Open makes an empty store on this rank. It does not communicate; ranks whose
// configurations differ learn it at their first Pull.
func Open(ex Exchanger, cfg Config) (*Store, error) {
	if ex == nil {
		return nil, errors.New("sparse: open: no Exchanger: pass Local{} for a single rank")
	}
	rank, size := ex.Rank(), ex.Size()
	if size < 1 || rank < 0 || rank >= size {
		return nil, fmt.Errorf("sparse: open: the Exchanger says rank %d of %d", rank, size)
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("sparse: open: rank %d: configuration:\n%w", rank, err)
	}
	cfg = cfg.Default()
	s := &Store{link: newLink(ex), rank: rank, size: size, cfg: cfg, owner: make([]int32, cfg.Shards), loads: make([]ShardLoad, cfg.Shards)}
	for i := range s.owner {
		s.owner[i] = int32(OwnerOf(i, cfg.Shards, size))
	}
	for _, c := range cfg.Tables {
		t, err := table.Open(c.engine(), cfg.Seed, cfg.Shards)
		if err != nil {
			return nil, fmt.Errorf("sparse: open: rank %d: %w", rank, err)
		}
		if slices.ContainsFunc(c.Parts, func(p Part) bool { return p.DenseL2 }) {
			t.Share(&s.past)
			s.decays = true
		}
		s.tables = append(s.tables, t)
		s.wire, s.how = append(s.wire, c.Wire), append(s.how, c.Strategy)
		s.pools = s.pools || c.Strategy == Pooled
		still := c.Evict == table.Evict{} && !slices.ContainsFunc(c.Parts, func(p Part) bool { return p.DenseL2 })
		s.still = append(s.still, still)
		s.early = s.early || still
		s.encodes = s.encodes || c.Wire.Gradients != FP32
		s.staged = append(s.staged, &staged{set: table.NewSet(t.Salt(), nil, 1)})
	}
	s.carried, s.applied = make([]int64, len(s.tables)), make([]table.Applied, len(s.tables))
	s.onCheck, s.onApply = s.checkTables, s.applyTables
	s.Share(1, nil)
	s.copies = s.newCopies()
	s.print = s.fingerprint()
	return s, nil
}

// Config returns the configuration in effect, defaults filled in.
func (s *Store) Config() Config { return s.cfg.Default() }

// Owned lists the shards of this rank, ascending.
func (s *Store) Owned() []int {
	shards := make([]int, 0, len(s.owner))
	for i, r := range s.owner {
		if int(r) == s.rank {
			shards = append(shards, i)
		}
	}
	return shards
}

// Rows returns how many rows of a table this rank holds.
func (s *Store) Rows(table int) int {
	s.settle()
	return s.tables[table].Rows() - s.copies.foreign[table]
}

// Reset forgets every row and every staged gradient, as if the store had just
// been opened: the way to load a checkpoint into a store in use. Lookups pulled before it cannot be pushed.
func (s *Store) Reset() error {
	s.settle()
	s.flying = s.flying[:0]
	s.slots.clear()
	s.copies = s.newCopies()
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

// Past returns the steps that rows will take when they appear, to be saved with a
// checkpoint and loaded after Reset; nil if no table has a DenseL2 part. It is the same on
// every rank.
func (s *Store) Past() *table.Past {
	if !s.decays {
		return nil
	}
	return &s.past
}

// Close ends the goroutine of Ahead and frees the memory of the tables; the store
// cannot be used afterwards. It waits for a batch that is being prepared: if a
// peer is lost, abort the group first.
func (s *Store) Close() error {
	s.stop()
	var errs []error
	for _, t := range s.tables {
		errs = append(errs, t.Close())
	}
	errs = append(errs, s.replica.each((*table.Table).Close))
	return errors.Join(errs...)
}

// name returns the name of a table.
func (s *Store) name(table int) string { return s.cfg.Tables[table].Name }

// Counters says what a store has done since Open and what it holds. Bytes are
// payload between different ranks; what a rank exchanges with itself is not
// counted.
type Counters struct {
	KeysPulled        int64 // values of all bags
	UniqueKeys        int64 // of them distinct within their batch and table
	RemoteUniqueKeys  int64 // of them owned by other ranks
	CountBytesSent    int64 // 8·(3+tables) for each peer and Pull; as many are received
	KeyBytesSent      int64 // 8 for each remote unique key
	KeyBytesReceived  int64
	RowBytesSent      int64
	RowBytesReceived  int64 // 4·V for each remote unique key
	GradBytesSent     int64 // 4·V for each remote unique key
	GradBytesReceived int64
	MarkBytesSent     int64 // an eighth for each key of another rank that was answered ahead or could have been
	MarkBytesReceived int64

	CopyBytesSent     int64 // rows and gradients of copied keys
	CopyBytesReceived int64

	ReplicaBytesSent int64 // what Mirror and Heal send; on the whole as many are received

	RowsInserted int64
	RowsHeld     int64 // now, on this rank
	StepsOfRows  int64 // optimizer steps taken, counted by row
	MemoryBytes  int64 // of rows, indexes and staged gradients, now
}

// add adds what one exchange has counted.
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

// BytesSent is all payload sent to other ranks.
func (c Counters) BytesSent() int64 {
	return c.CountBytesSent + c.KeyBytesSent + c.RowBytesSent + c.GradBytesSent + c.MarkBytesSent + c.CopyBytesSent + c.ReplicaBytesSent
}

// BytesReceived is all payload received from other ranks.
func (c Counters) BytesReceived() int64 {
	return c.CountBytesSent + c.KeyBytesReceived + c.RowBytesReceived + c.GradBytesReceived + c.MarkBytesReceived + c.CopyBytesReceived
}

// TableCounters says what one table has done and holds on this rank. Inserted may
// count a copied key on several ranks.
type TableCounters struct {
	table.Counters
	Rows  int64 // held now
	Bytes int64 // memory of rows and index, now, those of a copy included

	// CarriedBytes are what batches to train have made this rank take and send as an
	// owner: keys, rows or sums, and gradients, of other ranks, and what Mirror sends.
	CarriedBytes int64
}

// Table returns the counters of a table on this rank.
func (s *Store) Table(i int) TableCounters {
	s.settle()
	t := s.tables[i]
	c := TableCounters{Counters: t.Counters(), Rows: int64(t.Rows() - s.copies.foreign[i]), Bytes: t.Bytes(), CarriedBytes: s.carried[i]}
	if s.replica.tables != nil {
		c.Bytes += s.replica.tables[i].Bytes()
	}
	return c
}

// Counters returns the counters of this rank. It walks the shards: call it for a
// report, not for every row.
func (s *Store) Counters() Counters {
	s.settle()
	c := s.counters
	c.MemoryBytes = s.slots.bytes()
	for i, t := range s.tables {
		c.RowsHeld += int64(t.Rows() - s.copies.foreign[i])
		c.MemoryBytes += t.Bytes() + s.staged[i].bytes()
	}
	for _, t := range s.replica.tables {
		c.MemoryBytes += t.Bytes()
	}
	return c
}

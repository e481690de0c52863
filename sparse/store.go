package sparse

import (
	"errors"
	"fmt"

	"github.com/wdlrun/wdlrun/sparse/table"
)

// Exchanger is what a store needs of a group of ranks. Every rank makes the same
// calls in the same order; a call ends on every rank, with an error if a peer is
// lost.
type Exchanger interface {
	Rank() int
	Size() int
	// AllToAll sends len(send)/Size numbers to every rank, itself included, and
	// receives as many from each. Both slices are in rank order.
	AllToAll(send, recv []int64) error
	// AllToAllV sends sendCounts[r] bytes to rank r and receives recvCounts[r]
	// from it. Both buffers are contiguous in rank order.
	AllToAllV(send []byte, sendCounts []int, recv []byte, recvCounts []int) error
}

// Store is one rank's share of the tables and its way to the others'.
type Store struct {
	ex         Exchanger
	rank, size int
	cfg        Config
	print      uint64 // fingerprint of cfg
	tables     []*table.Table
	staged     []*staged // by table
	owner      []int32   // by shard
	pulls      int64     // how many there were, to find ranks out of step
	generation int64     // how often Reset was called, to find stale Lookups
	ids        []uint32
	counters   Counters
	norm       table.Sum
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
	s := &Store{ex: ex, rank: rank, size: size, cfg: cfg, print: cfg.fingerprint(), owner: make([]int32, cfg.Shards)}
	for i := range s.owner {
		s.owner[i] = int32(OwnerOf(i, cfg.Shards, size))
	}
	for _, c := range cfg.Tables {
		t, err := table.Open(c, cfg.Seed, cfg.Shards)
		if err != nil {
			return nil, fmt.Errorf("sparse: open: rank %d: %w", rank, err)
		}
		s.tables = append(s.tables, t)
		s.staged = append(s.staged, &staged{set: table.NewSet(t.Salt(), nil, 1)})
	}
	return s, nil
}

// Config returns the configuration in effect, defaults filled in.
func (s *Store) Config() Config { return s.cfg.Default() }

// Owned lists the shards of this rank, ascending.
func (s *Store) Owned() (shards []int) {
	for i, r := range s.owner {
		if int(r) == s.rank {
			shards = append(shards, i)
		}
	}
	return shards
}

// Rows returns how many rows of a table this rank holds.
func (s *Store) Rows(table int) int { return s.tables[table].Rows() }

// Reset forgets every row and every staged gradient, as if the store had just
// been opened, the way to load a
// checkpoint into a store in use. Lookups pulled before it cannot be pushed.
func (s *Store) Reset() {
	for i, t := range s.tables {
		t.Reset()
		s.staged[i].reset()
	}
	s.generation++
}

// Close frees the memory of the tables; the store cannot be used afterwards.
func (s *Store) Close() error {
	var errs []error
	for _, t := range s.tables {
		errs = append(errs, t.Close())
	}
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
	CountBytesSent    int64 // 8·(2+tables) for each peer and Pull; as many are received
	KeyBytesSent      int64 // 8 for each remote unique key
	KeyBytesReceived  int64
	RowBytesSent      int64
	RowBytesReceived  int64 // 4·V for each remote unique key
	GradBytesSent     int64 // 4·V for each remote unique key
	GradBytesReceived int64
	RowsInserted      int64
	RowsHeld          int64 // now, on this rank
	StepsOfRows       int64 // optimizer steps taken, counted by row
	MemoryBytes       int64 // of rows, indexes and staged gradients, now
}

// BytesSent is all payload sent to other ranks.
func (c Counters) BytesSent() int64 {
	return c.CountBytesSent + c.KeyBytesSent + c.RowBytesSent + c.GradBytesSent
}

// BytesReceived is all payload received from other ranks.
func (c Counters) BytesReceived() int64 {
	return c.CountBytesSent + c.KeyBytesReceived + c.RowBytesReceived + c.GradBytesReceived
}

// Counters returns the counters of this rank. It walks the shards: call it for a
// report, not for every row.
func (s *Store) Counters() Counters {
	c := s.counters
	for i, t := range s.tables {
		c.RowsHeld += int64(t.Rows())
		c.MemoryBytes += t.Bytes() + s.staged[i].bytes()
	}
	return c
}

// Local is the Exchanger of a single rank.
type Local struct{}

// Rank returns 0.
func (Local) Rank() int { return 0 }

// Size returns 1.
func (Local) Size() int { return 1 }

// AllToAll copies send to recv.
func (Local) AllToAll(send, recv []int64) error {
	if len(send) != len(recv) {
		return fmt.Errorf("local: all-to-all: %d numbers sent, %d expected", len(send), len(recv))
	}
	copy(recv, send)
	return nil
}

// AllToAllV copies send to recv.
func (Local) AllToAllV(send []byte, _ []int, recv []byte, _ []int) error {
	if len(send) != len(recv) {
		return fmt.Errorf("local: all-to-all: %d bytes sent, %d expected", len(send), len(recv))
	}
	copy(recv, send)
	return nil
}

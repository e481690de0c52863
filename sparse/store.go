package sparse

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wdlrun/wdlrun/sparse/table"
)

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

// NewLookup returns an empty Lookup of this store.
func (s *Store) NewLookup() *Lookup {
	l := &Lookup{pull: pull{batch: newBatch(s)}}
	l.pull.init()
	l.batch.init()
	l.onGrads, l.onStage = l.receiveGrads, l.stage
	l.delivery.init(l)
	if s.pools {
		l.bagged = newPooler(l)
	}
	l.onPrepare = func() { l.err = l.prepare(&s.pipeline.link, l.pending) }
	l.onPush = func() { s.pipeline.err = s.push(l, &s.pipeline.link) }
	return l
}

// Apply takes one optimizer step for each distinct key with a staged gradient, and for
// every other row of DenseL2 parts. It inserts keys that have no row. It does not
// communicate. On an error, such as [*table.NonFiniteError], no row has changed and the
// gradients are still staged.
func (s *Store) Apply(at Step) error {
	fault := func(err error) error {
		return fmt.Errorf("sparse: apply: step %d: rank %d of %d: %w", at.N, s.rank, s.size, err)
	}
	if err := s.pipeline.endPush(); err != nil {
		return err
	}
	if err := s.check(at); err != nil {
		return fault(err)
	}
	if s.decays {
		s.past.Add(at)
	}
	if err := s.workers.all(false, s.onApply); err != nil {
		return fault(err)
	}
	for _, done := range s.applied {
		s.counters.RowsInserted += int64(done.Inserted)
		s.counters.StepsOfRows += int64(done.Steps)
	}
	s.inFlight = slices.DeleteFunc(s.inFlight, func(l *Lookup) bool { return l.state == pushed })
	if err := s.replica.apply(at); err != nil {
		return fault(err)
	}
	s.stepped = at.N
	return nil
}

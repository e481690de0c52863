package sparse

import (
	"errors"
	"fmt"

	"github.com/wdlrun/wdlrun/sparse/table"
)

// Changes takes the rows of this rank's shards that have changed since the last time, for a
// copy of the tables that follows the training: see [table.Watch]. It takes the turns it is
// given on the goroutine of the store's calls. A Snapshot may be under way at the same time.
type Changes struct {
	store   *Store
	watches []*table.Watch
	next    int // table to copy
}

// WatchChanges notes changes from now on, in place of the Changes before. A table with
// DenseL2 parts is an error.
func WatchChanges(s *Store) (*Changes, error) {
	s.pipeline.wait()
	c := &Changes{store: s}
	for _, t := range s.tables {
		w, err := table.NewWatch(t)
		if err != nil {
			c.Close()
			return nil, c.fault(err)
		}
		c.watches = append(c.watches, w)
	}
	return c, nil
}

func (c *Changes) fault(err error) error {
	return fmt.Errorf("sparse: changes: rank %d of %d: %w", c.store.rank, c.store.size, err)
}

// Take begins to copy what has changed, as it is now: call it between Apply and the next
// Push, and after Copy has returned false. An error means that not all changes are known,
// because rows were loaded: begin again with WatchChanges.
func (c *Changes) Take() error {
	c.store.pipeline.wait()
	c.next = 0
	for _, w := range c.watches {
		if err := w.Take(); err != nil {
			return c.fault(err)
		}
	}
	return nil
}

// Copy copies up to n rows of what was taken and reports whether some are left.
func (c *Changes) Copy(n int) (more bool) {
	c.store.pipeline.wait()
	for ; c.next < len(c.watches); c.next++ {
		if c.watches[c.next].Copy(n) > 0 {
			return true
		}
	}
	return false
}

// Taken returns what was taken of a table, in shards of this rank, after Copy has returned
// false. It is valid until the next Take or Again.
func (c *Changes) Taken(i int) (*table.Taken, error) {
	s := c.store
	x, err := c.watches[i].Taken()
	if err != nil {
		return nil, c.fault(err)
	}
	if s.how[i] != Replicated || s.size == 1 {
		return x, nil
	}
	width, n := s.tables[i].Width(), 0
	for j, key := range x.Keys {
		if c.owns(i, key) {
			x.Keys[n] = key
			copy(x.Values[n*width:(n+1)*width], x.Values[j*width:])
			n++
		}
	}
	x.Keys, x.Values = x.Keys[:n], x.Values[:n*width]
	n = 0
	for _, key := range x.Removed {
		if c.owns(i, key) {
			x.Removed[n] = key
			n++
		}
	}
	x.Removed = x.Removed[:n]
	return x, nil
}

// owns reports whether a key of a table is in a shard of this rank.
func (c *Changes) owns(i int, key uint64) bool {
	s := c.store
	return int(s.shards.owner[s.tables[i].ShardOf(key)]) == s.rank
}

// Again makes the next Take include what the last one has taken and copied.
func (c *Changes) Again() error {
	c.store.pipeline.wait()
	var errs []error
	for _, w := range c.watches {
		errs = append(errs, w.Again())
	}
	if err := errors.Join(errs...); err != nil {
		return c.fault(err)
	}
	return nil
}

// Close ends the watch: steps cost again what they do without one.
func (c *Changes) Close() {
	for _, w := range c.watches {
		w.Close()
	}
}

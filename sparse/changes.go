package sparse

import (
	"errors"
	"fmt"

	"github.com/wdlrun/wdlrun/sparse/table"
)

// Changes collects the rows of this rank's shards that have changed since the last Take,
// for a copy of the tables that follows the training; see table.Watch. All methods are
// called on the goroutine that makes the calls of the store. A Snapshot may be in progress
// at the same time.
type Changes struct {
	store   *Store
	watches []*table.Watch
	next    int // next table to copy
}

// WatchChanges starts to record changes. It replaces an earlier Changes of the store.
// It returns an error if a table has a DenseL2 part.
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

// Take starts to copy the rows that have changed, with their current values. Call it
// between Apply and the next Push, after Copy has returned false. It returns an error
// if rows were loaded since the last Take, because changes may be missing: call
// WatchChanges again.
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

// Copy copies up to n rows of the last Take and reports whether more are left.
func (c *Changes) Copy(n int) (more bool) {
	c.store.pipeline.wait()
	for ; c.next < len(c.watches); c.next++ {
		if c.watches[c.next].Copy(n) > 0 {
			return true
		}
	}
	return false
}

// Taken returns the rows of table i that the last Take found in the shards of this
// rank. Call it after Copy has returned false. The result is valid until the next Take
// or Again.
func (c *Changes) Taken(i int) (*table.Taken, error) {
	x, err := c.watches[i].Taken()
	if err != nil {
		return nil, c.fault(err)
	}
	return x, nil
}

// Again makes the next Take include the rows of the last one.
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

// Close stops recording.
func (c *Changes) Close() {
	for _, w := range c.watches {
		w.Close()
	}
}

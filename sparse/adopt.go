package sparse

import (
	"reflect"
	"slices"
)

// Adopt takes a table with its rows from another store of the same group, which gets the empty one
// of this store instead, and reports whether it could. Both tables must have the same configuration,
// and no parts with DenseL2. OpenTier must not have been called. The counters of the table
// start again. Every rank calls it, after the last batch of the other store and before the first of
// this one.
func (x *Files) Adopt(table int, from *Store, of int) bool {
	s := x.store
	s.pipeline.wait()
	from.pipeline.wait()
	a, b := s.tables[table], from.tables[of]
	same := s.rank == from.rank && s.cfg.Seed == from.cfg.Seed && slices.Equal(s.shards.owner, from.shards.owner) && reflect.DeepEqual(a.Config(), b.Config())
	if !same || s.decays || from.decays || s.replica.tables != nil || from.replica.tables != nil || a.Rows() != 0 {
		return false
	}
	s.tables[table], from.tables[of] = b, a
	b.Uncount()
	s.generation++
	from.generation++
	return true
}

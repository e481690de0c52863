package sparse

import (
	"fmt"

	"github.com/wdlrun/wdlrun/sparse/table"
)

// Keys without a row read as zeros, so that no sample is scored with random initial values.
// This holds for all keys in a batch that is only read, and for keys that are not admitted
// yet in a table that admits keys after several occurrences. A zero counts in the
// denominator of its bag.

// Unknown returns how many values of feature f had no row and were read as zeros. For a
// Pooled table it counts the values that this rank pooled as an owner; the sum over all
// ranks is the same. Use it for batches pulled with insert=false.
func (l *Lookup) Unknown(f int) (n int64) {
	if l.state <= prepared || f < 0 || f >= len(l.features) {
		panic(fmt.Sprintf("sparse: Unknown: feature %d of %d, or nothing has been pulled into this Lookup", f, len(l.features)))
	}
	x := &l.features[f]
	if l.store.how[x.table] == Pooled {
		return l.bagged.unknown[f]
	}
	width := uint32(l.store.tables[x.table].Width())
	for _, at := range x.at {
		if table.IsUnknown(l.rows[at : at+width]) {
			n++
		}
	}
	return n
}
